/* SPDX-License-Identifier: Apache-2.0 */
/* A library with BYTES of static TLS, as OpenMP, MPI's plug-ins and others have. */
char *filler_memory(void);

static __thread char memory[BYTES] __attribute__((tls_model("initial-exec")));

char *filler_memory(void)
{
    return memory;
}
