/* SPDX-License-Identifier: Apache-2.0 */
#include "model/lines.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FRAMES_MAX = 32, SHOWN_MAX = 3 };

struct frame {
    uint64_t address; /* of the return; inlined calls share it */
    char function[128], file[PATH_MAX];
    unsigned int line; /* 0: unknown */
};

/* The frames of a call, innermost first. */
struct chain {
    struct frame frames[FRAMES_MAX];
    unsigned int num;
    const char *why; /* there are no lines; NULL: there are */
};

/*
 * Is a file the recorded module?
 */

/* The build id among notes; 0: there is none. */
static size_t find_build_id(const uint8_t *notes, size_t size, const uint8_t **id)
{
    Elf64_Nhdr note;

    for (size_t at = 0; at + sizeof(note) <= size;) {
        memcpy(&note, notes + at, sizeof(note));
        size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t content = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (name + content > size - at - sizeof(note))
            return 0;
        *id = notes + at + sizeof(note) + name;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4)
            return note.n_descsz;
        at += sizeof(note) + name + content;
    }
    return 0;
}

static bool has_build_id(const uint8_t *file, size_t size, const struct um_module *m)
{
    Elf64_Ehdr head;
    Elf64_Phdr h;
    const uint8_t *id;

    if (size < sizeof(head))
        return false;
    memcpy(&head, file, sizeof(head));
    for (unsigned int i = 0; i < head.e_phnum; i++) {
        if (head.e_phoff > size || size - head.e_phoff < (i + 1) * sizeof(h))
            return false;
        memcpy(&h, file + head.e_phoff + i * sizeof(h), sizeof(h));
        if (h.p_type != PT_NOTE || h.p_offset > size || h.p_filesz > size - h.p_offset)
            continue;
        if (find_build_id(file + h.p_offset, h.p_filesz, &id) == m->build_id_size &&
            memcmp(id, m->build_id, m->build_id_size) == 0)
            return true;
    }
    return false;
}

/* NULL: the file is the recorded module, as far as that can be said. */
static const char *compare_file(const struct um_module *m)
{
    int fd = open(m->path, O_RDONLY | O_CLOEXEC);
    const char *why = NULL;
    struct stat st;

    if (fd < 0)
        return "this file is not on this machine";
    void *file = fstat(fd, &st) == 0 && st.st_size > 0
                     ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                     : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED)
        return "this file cannot be read";
    if (m->build_id_size && !has_build_id(file, (size_t)st.st_size, m))
        why = "this file has changed since: its build id differs";
    munmap(file, (size_t)st.st_size);
    return why;
}

/*
 * The tools
 */

/* Starts a tool with its output in a pipe; NULL: it is not there. */
static FILE *start_tool(const char *tool, const char *path, uint64_t offset, pid_t *pid)
{
    char address[32], name[PATH_MAX];
    const char *args[] = {tool, "-f", "-i", "-C", "-e", name, address, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    char *argv[8];

    snprintf(name, sizeof(name), "%s", path);
    snprintf(address, sizeof(address), "0x%llx", (unsigned long long)offset);
    memcpy(argv, args, sizeof(argv));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(pid, tool, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error)
        close(ends[0]);
    return error ? NULL : fdopen(ends[0], "r");
}

/* A line of a tool, without its end. */
static bool read_line(FILE *from, char *line, size_t size)
{
    if (!fgets(line, (int)size, from))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* "a.c:12", "a.c:12:5", "a.c:12 (discriminator 2)", "??:0", "a.c:?" */
static void read_place(struct frame *f, char *place)
{
    char folder[PATH_MAX], *colon = strchr(place, ':'), *file = place;
    size_t length;

    f->line = colon ? (unsigned int)strtoul(colon + 1, NULL, 10) : 0;
    if (colon)
        *colon = '\0';
    if (f->line && getcwd(folder, sizeof(folder)) && (length = strlen(folder)) > 1 &&
        strncmp(file, folder, length) == 0 && file[length] == '/')
        file += length + 1;
    snprintf(f->file, sizeof(f->file), "%s", file);
}

/* Adds the frames of an address, more than one where calls are inlined. False: the tool is not
 * there, or does not know the file. */
static bool ask_tool(struct chain *c, const char *tool, const struct um_module *m, uint64_t address)
{
    char function[PATH_MAX], place[PATH_MAX];
    unsigned int before = c->num;
    pid_t pid;

    FILE *from = start_tool(tool, m->path, address - 1 - m->bias, &pid);
    if (!from)
        return false;
    while (read_line(from, function, sizeof(function)) && read_line(from, place, sizeof(place))) {
        if (c->num == FRAMES_MAX)
            continue;
        struct frame *f = &c->frames[c->num++];
        char *inlined = strstr(function, " inlined at ");
        if (inlined)
            *inlined = '\0';
        f->address = address;
        snprintf(f->function, sizeof(f->function), "%.100s", function);
        read_place(f, place);
    }
    fclose(from);
    waitpid(pid, NULL, 0);
    return c->num > before;
}

static const struct um_module *find_module(const struct um_process *p, uint64_t address)
{
    for (size_t i = 0; i < p->num_modules; i++)
        if (address > p->modules[i].begin && address <= p->modules[i].end)
            return &p->modules[i];
    return NULL;
}

static const char *name_module(const struct um_module *m)
{
    const char *slash = strrchr(m->path, '/');

    return slash ? slash + 1 : m->path;
}

/* Is this no part of the program? */
static bool is_between(const struct um_module *m)
{
    static const char *const names[] = {"libtofucom", "libutofu-observe", "libutofu-record-mpi",
                                        "libmpi", NULL};

    for (int i = 0; names[i]; i++)
        if (strncmp(name_module(m), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void add_frames(struct chain *c, const struct um_module *m, uint64_t address)
{
    const char *why = compare_file(m);
    unsigned int before = c->num;

    if (!why && !ask_tool(c, "addr2line", m, address) && !ask_tool(c, "eu-addr2line", m, address))
        why = "install addr2line, of binutils or elfutils, for the line";
    if (!why && !c->frames[before].line)
        why = "compile with -g for the line";
    if (!why || c->num == FRAMES_MAX)
        return;
    c->num = before;
    struct frame *f = &c->frames[c->num++];
    *f = (struct frame){.address = address};
    snprintf(f->file, sizeof(f->file), "%.200s+0x%llx", name_module(m),
             (unsigned long long)(address - 1 - m->bias));
    if (!c->why && before == 0)
        c->why = why;
}

static void read_chain(struct chain *c, const struct um_program *p, uint32_t index)
{
    const struct um_site *site = &p->sites[index];

    c->num = 0;
    c->why = NULL;
    for (uint32_t i = 0; i < site->num; i++) {
        const struct um_module *m = find_module(&p->processes[site->process], site->frames[i]);
        if (!m || (c->num == 0 && is_between(m)))
            continue;
        if (c->num && strncmp(name_module(m), "libc.", 5) == 0) /* the caller of main() */
            break;
        add_frames(c, m, site->frames[i]);
        if (c->why) /* the callers have no line, either */
            break;
    }
}

/*
 * Text
 */

static void __attribute__((format(printf, 3, 4)))
add_text(char *text, size_t size, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + used, size - used, fmt, ap);
    va_end(ap);
}

/* From a frame outwards. */
static void add_chain(char *text, size_t size, const struct chain *c)
{
    for (unsigned int i = 0; i < c->num && i < SHOWN_MAX; i++) {
        const struct frame *f = &c->frames[i];
        if (i && !f->line)
            break;
        add_text(text, size, "%s%s", i ? ", called at " : "", f->file);
        if (f->line)
            add_text(text, size, ":%u in %s", f->line, f->function);
    }
    if (c->why)
        add_text(text, size, " (%s)", c->why);
}

/* Is this the place in a function where a call was inlined? */
static bool is_inlining(const struct frame *innermost, const struct frame *f)
{
    return f > innermost && f[-1].address == f->address;
}

/* Where the call before has returned to and this one is made from: a place in one function, or
 * NULL. Seen from main(), it is the first frame in which both differ. */
static const struct frame *find_common(const struct chain *before, const struct chain *c,
                                       const struct frame **from)
{
    unsigned int n = before->num < c->num ? before->num : c->num;

    for (unsigned int i = 1; i <= n; i++) {
        const struct frame *a = &before->frames[before->num - i], *b = &c->frames[c->num - i];
        bool same = strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
        if (!same || !a->line || !b->line)
            return NULL;
        if (a->line == b->line && (a->address == b->address ||
                                   (is_inlining(before->frames, a) && is_inlining(c->frames, b))))
            continue;
        *from = a;
        return a->line < b->line || (a->line == b->line && a->address < b->address) ? b : NULL;
    }
    return NULL;
}

/* Paths and names may have any bytes; the text goes to terminals, and to JSON. */
static void keep_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void name_call(const struct um_program *p, uint32_t thread, uint32_t op, char *text,
                      size_t size)
{
    static struct chain chain, before;
    const struct um_op *ops = p->threads[thread].ops;
    const struct frame *from;

    *text = '\0';
    read_chain(&chain, p, ops[op].site);
    before.num = 0;
    if (op && chain.num && !chain.why)
        read_chain(&before, p, ops[op - 1].site);
    const struct frame *to = find_common(&before, &chain, &from);
    if (!to) {
        add_chain(text, size, &chain);
        if (before.num && !before.why) {
            add_text(text, size, " (behind the call at ");
            add_chain(text, size, &before);
            add_text(text, size, ")");
        }
        return;
    }
    add_text(text, size, "%s:%u", to->file, from->line);
    if (to->line > from->line)
        add_text(text, size, " to %u", to->line);
    add_text(text, size, " in %s", to->function);
    if (to != chain.frames)
        add_text(text, size, ", before the call at %s:%u in %s", chain.frames->file,
                 chain.frames->line, chain.frames->function);
}

void um_lines_name(const struct um_program *p, uint32_t thread, uint32_t op, char *text,
                   size_t size)
{
    name_call(p, thread, op, text, size);
    keep_printable(text);
}
