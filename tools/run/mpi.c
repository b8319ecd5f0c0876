/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the dynamic section of an ELF file: the libraries that it needs itself. Nothing is loaded
 * or started. What the file says is checked against its size, as any file may be given.
 */
#include "run/mpi.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Open MPI, MPICH and those with its ABI (Intel MPI, MVAPICH), Fujitsu's; libmpich: Debian's MPICH;
 * the Fortran libraries of Open MPI. */
static const char *const mpi_names[] = {"libmpi.so", "libmpich.so", "libmpi_", "libmpifort.so",
                                        "libmpichfort.so"};

struct image {
    const char *bytes;
    size_t size;
    const Elf64_Phdr *segments;
    size_t num_segments;
};

static bool is_inside(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset;
}

static bool read_header(struct image *image)
{
    const Elf64_Ehdr *header = (const void *)image->bytes;
    uint16_t one = 1;
    unsigned char order = *(unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;

    if (!is_inside(image, 0, sizeof(*header)) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != order ||
        header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff % sizeof(uint64_t) != 0 ||
        !is_inside(image, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr)))
        return false;
    image->segments = (const void *)(image->bytes + header->e_phoff);
    image->num_segments = header->e_phnum;
    return true;
}

/* The place in the file of what is loaded to an address; the size of the file: there is none. */
static uint64_t place_of(const struct image *image, uint64_t address)
{
    for (size_t i = 0; i < image->num_segments; i++) {
        const Elf64_Phdr *s = &image->segments[i];

        if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz)
            return s->p_offset + (address - s->p_vaddr);
    }
    return image->size;
}

static bool is_mpi(const char *name)
{
    for (size_t i = 0; i < sizeof(mpi_names) / sizeof(mpi_names[0]); i++)
        if (strncmp(name, mpi_names[i], strlen(mpi_names[i])) == 0)
            return true;
    return false;
}

static const char *find_needed_mpi(const struct image *image, const Elf64_Dyn *entries,
                                   size_t num_entries)
{
    uint64_t strings = image->size;

    for (size_t i = 0; i < num_entries && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_STRTAB)
            strings = place_of(image, entries[i].d_un.d_ptr);
    for (size_t i = 0; i < num_entries && entries[i].d_tag != DT_NULL; i++) {
        uint64_t left = strings < image->size ? image->size - strings : 0;
        const char *name = image->bytes + strings + entries[i].d_un.d_val;

        if (entries[i].d_tag == DT_NEEDED && entries[i].d_un.d_val < left &&
            memchr(name, '\0', left - entries[i].d_un.d_val) && is_mpi(name))
            return name;
    }
    return NULL;
}

static const char *find_mpi(struct image *image)
{
    if (!read_header(image))
        return NULL;
    for (size_t i = 0; i < image->num_segments; i++) {
        const Elf64_Phdr *s = &image->segments[i];

        if (s->p_type == PT_DYNAMIC && s->p_offset % sizeof(uint64_t) == 0 &&
            is_inside(image, s->p_offset, s->p_filesz))
            return find_needed_mpi(image, (const void *)(image->bytes + s->p_offset),
                                   s->p_filesz / sizeof(Elf64_Dyn));
    }
    return NULL;
}

bool run_mpi_library_of_file(const char *path, char *name, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    struct image image = {0};
    const char *found = NULL;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        image.size = (size_t)status.st_size;
        void *bytes = mmap(NULL, image.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            image.bytes = bytes;
            found = find_mpi(&image);
            if (found)
                snprintf(name, size, "%s", found);
            munmap(bytes, image.size);
        }
    }
    close(fd);
    return found != NULL;
}

bool run_mpi_library(const char *command, char *name, size_t size)
{
    const char *path = getenv("PATH");
    char file[4096];

    if (strchr(command, '/'))
        return run_mpi_library_of_file(command, name, size);
    for (const char *p = path ? path : ""; *p;) {
        size_t length = strcspn(p, ":");

        snprintf(file, sizeof(file), "%.*s/%s", length ? (int)length : 1, length ? p : ".",
                 command);
        if (access(file, X_OK) == 0)
            return run_mpi_library_of_file(file, name, size);
        p += length + (p[length] == ':');
    }
    return false;
}
