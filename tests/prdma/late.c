/* SPDX-License-Identifier: Apache-2.0 */
/* late PLUGIN [ARGUMENT]...: runs main() of a shared object, which loads MPI at run time, in a
 * scope of its own. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
    int (*run)(int, char **) = NULL;

    if (plugin != NULL)
        *(void **)&run = dlsym(plugin, "run");
    if (run == NULL) {
        fprintf(stderr, "late: %s\n", argc > 1 ? dlerror() : "name a shared object");
        return 2;
    }
    return run(argc - 1, argv + 1);
}
