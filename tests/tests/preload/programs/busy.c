/* At least half a second of CPU time in each of: the parent, a forked child, a program that is started, a thread. Each
   begins and ends right after a sample, and prints its name, the CPU time that the kernel charged in between, and how
   much of that may belong to another sample: nanoseconds. So the figures hold beside any load. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

static long long cpu_nanos(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void turns(void) {
    for (int turn = 0; turn < 100000; turn++) sum += turn;
}

static void spin(double seconds) {
    long long end = cpu_nanos() + seconds * 1e9;
    while (cpu_nanos() < end) turns();
}

/* Samples are taken on the alternate stack, and nothing else here uses it. */
struct alternate {
    char bytes[1 << 16];
};

static __thread struct alternate *alternate;

static void watch_samples(void) {
    alternate = calloc(1, sizeof *alternate);
    stack_t stack = {.ss_sp = alternate->bytes, .ss_size = sizeof alternate->bytes};
    if (sigaltstack(&stack, NULL)) _exit(8);
}

static int is_sampled(void) {
    static const struct alternate untouched;
    return memcmp(alternate, &untouched, sizeof untouched) != 0;
}

/* Returns the CPU time since the last look that saw no sample. */
static long long until_sampled(void) {
    long long last_look = cpu_nanos(), give_up = last_look + 60000000000ll;
    memset(alternate, 0, sizeof *alternate);
    while (!is_sampled()) {
        last_look = cpu_nanos();
        if (last_look > give_up) _exit(7);
        turns();
    }
    return cpu_nanos() - last_look;
}

static long long half_a_second(void) {
    spin(0.5);
    return until_sampled();
}

__attribute__((noinline)) long long busy_parent(void) { long long after = half_a_second(); sum++; return after; }
__attribute__((noinline)) long long busy_child(void) { long long after = half_a_second(); sum++; return after; }
__attribute__((noinline)) long long busy_started(void) { long long after = half_a_second(); sum++; return after; }
__attribute__((noinline)) long long busy_thread(void) { long long after = half_a_second(); sum++; return after; }

static void measure(const char *name, long long (*work)(void)) {
    watch_samples();
    long long doubt = until_sampled(), start = cpu_nanos();
    doubt += work();
    dprintf(1, "%s %lld %lld\n", name, cpu_nanos() - start, doubt);
}

static void *in_thread(void *nothing) {
    measure("busy_thread", busy_thread);
    return nothing;
}

/* Works until what was sampled has been saved, and is killed. */
static void be_killed(void) {
    char path[4096];
    struct stat found;
    snprintf(path, sizeof path, "%s/%d-0.profile", getenv("FLAMELET_RECORD_FOLDER"), getpid());
    watch_samples();
    until_sampled();
    /* The save that comes next may have begun before the sample. */
    for (int saves = 0; saves < 2; saves++) {
        if (stat(path, &found)) _exit(6);
        struct timespec before = found.st_mtim;
        while (found.st_mtim.tv_sec == before.tv_sec && found.st_mtim.tv_nsec == before.tv_nsec) {
            spin(0.01);
            if (stat(path, &found)) _exit(6);
        }
    }
    kill(getpid(), SIGKILL);
}

static void started(const char *self, char *const arguments[]) {
    pid_t child = fork();
    if (child == 0 && self) {
        execv(self, arguments);
        _exit(9);
    }
    if (child == 0) {
        measure("busy_child", busy_child);
        exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "started") == 0) {
        measure("busy_started", busy_started);
        return 0;
    }
    if (count > 1 && strcmp(arguments[1], "killed") == 0) be_killed();
    char *const words[] = {arguments[0], "started", NULL};
    started(arguments[0], words);
    started(NULL, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    measure("busy_parent", busy_parent);
    return 4;
}
