/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a component that brings PMIx and libtofutop along: with MPI, after MPI_Init, which has
 * loaded PMIx for itself.
 *
 * usage: loader COMPONENT LAYOUT: that of pmix.c
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef WITH_MPI
#    include <mpi.h>
#endif

int main(int argc, char **argv)
{
    int (*component)(int argc, char **argv);
    void *library, *function;
    int rc;

#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
#endif
    library = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    function = library ? dlsym(library, "component") : NULL;
    if (!function) {
        fprintf(stderr, "loader: %s\n", argc > 2 ? dlerror() : "no component");
        return 2;
    }
    memcpy(&component, &function, sizeof(component));
    rc = component(argc - 1, argv + 1);
    dlclose(library);
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return rc;
}
