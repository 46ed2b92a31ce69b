// A clock of their own for the programs of a test bed: the time of day differs from the machine's by the seconds in the file
// $CLOCK_OFFSET (a number with a sign, in text), which may change while they run. Monotonic clocks stay.
//
//   cc -shared -fPIC -O2 -o clock.so scripts/clock.c
//   CLOCK_OFFSET=file LD_PRELOAD=$PWD/clock.so PROGRAM
//
// Programs read clocks in the vDSO, some of them past libc, so that what libc has cannot be replaced in its place: the
// functions of the vDSO in this process's own memory are.

#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef __x86_64__
#error "for x86-64"
#endif

// The text of the file, as it is now.
static const char *offset;

static void fail(const char *what) {
    fprintf(stderr, "clock: %s\n", what);
    _exit(1);
}

// A system call past libc, which has been told to come here.
static long kernel_clock(clockid_t id, struct timespec *time) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_clock_gettime), "D"((long)id), "S"(time)
                     : "rcx", "r11", "memory");
    return result;
}

static time_t seconds(void) {
    time_t value = 0;
    const char *at = offset;
    int minus = *at == '-';
    for (at += minus || *at == '+'; *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
    return minus ? -value : value;
}

static int own_clock_gettime(clockid_t id, struct timespec *time) {
    long result = kernel_clock(id, time);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += seconds();
    return (int)result;
}

static int own_gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    if (zone) memset(zone, 0, sizeof(struct timezone));
    if (!time) return 0;
    own_clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

static time_t own_time(time_t *time) {
    struct timespec now;
    own_clock_gettime(CLOCK_REALTIME, &now);
    if (time) *time = now.tv_sec;
    return now.tv_sec;
}

enum { JUMP_BYTES = 12 };

// Has a function of the vDSO go elsewhere: movabs $target, %rax; jmp *%rax.
static void divert(char *function, void *target) {
    unsigned char jump[JUMP_BYTES] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    memcpy(jump + 2, &target, sizeof target);
    memcpy(function, jump, sizeof jump);
}

__attribute__((constructor)) static void begin(void) {
    static const struct {
        const char *name;
        void *target;
    } diverted[] = {{"__vdso_clock_gettime", own_clock_gettime},
                    {"__vdso_gettimeofday", own_gettimeofday},
                    {"__vdso_time", own_time}};
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) fail("CLOCK_OFFSET");
    offset = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (offset == MAP_FAILED) fail("mmap");
    close(file);

    char *base = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!base) fail("no vDSO");
    Elf64_Phdr *parts = (Elf64_Phdr *)(base + ((Elf64_Ehdr *)base)->e_phoff);
    Elf64_Dyn *dynamic = NULL;
    size_t length = 0, found = 0;
    for (int i = 0; i < ((Elf64_Ehdr *)base)->e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD) length = (parts[i].p_memsz + 4095) / 4096 * 4096;
        if (parts[i].p_type == PT_DYNAMIC) dynamic = (Elf64_Dyn *)(base + parts[i].p_offset);
    }
    Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(base + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) names = base + dynamic->d_un.d_ptr;
    }
    if (!symbols || !names) fail("no symbols in the vDSO");
    // Kernels let debuggers set breakpoints there, so it may be written to; other processes have their own copy.
    if (mprotect(base, length, PROT_READ | PROT_WRITE | PROT_EXEC)) fail("mprotect");
    // The names follow the symbols.
    for (Elf64_Sym *symbol = symbols; (const char *)symbol < names; symbol++)
        for (size_t i = 0; i < sizeof diverted / sizeof *diverted; i++)
            if (strcmp(names + symbol->st_name, diverted[i].name) == 0 && symbol->st_size >= JUMP_BYTES) {
                divert(base + symbol->st_value, diverted[i].target);
                found++;
            }
    if (found < sizeof diverted / sizeof *diverted) fail("functions of the vDSO");
    mprotect(base, length, PROT_READ | PROT_EXEC);
}
