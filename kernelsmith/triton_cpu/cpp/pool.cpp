// Runs a range of program instances on every core.
//
// All state lives in one page that the kernel zeroes in a forked child (MADV_WIPEONFORK), and an all-zero page is a
// pool without threads: a child starts its own threads at its first launch, whatever its parent was doing.
// Threads spin for a while after a launch, since the next one usually follows at once, then sleep on a futex.
// A launch never waits for a thread that has not joined it yet, so a thread that is slow to wake costs nothing.

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

typedef void (*Run)(long lo, long hi, const int *grid, const unsigned long long *args, char *scratch);

// The layout that pool.py packs: 8 + 8 + 3*4 + 4 bytes, then one 8-byte slot per argument.
struct Request {
    Run run;
    uint64_t scratch_bytes;
    int32_t grid[3];
    int32_t threads;
    unsigned long long args[];
};

enum Status { kDone = 0, kNoMemory = 1, kGridTooLarge = 2 };

struct Pool {
    pid_t owner;            // only where the kernel lacks MADV_WIPEONFORK
    int busy;               // a launch owns the pool
    int workers;            // threads started
    uint32_t sequence;      // number of the last launch; never 0
    const Request *request; // valid while the gate is open, or a joined thread has not finished
    long total, chunk;
    alignas(64) uint32_t signal;   // threads wait for this to become the next sequence number
    uint32_t sleepers;
    alignas(64) uint64_t gate;     // sequence << 32 | most threads that may join << 16 | threads that joined; 0: closed
    uint32_t finished;             // threads that joined and left
    alignas(64) long next;         // first program instance that nobody took
};

static Pool *pool;
static bool wiped_on_fork;
static pthread_key_t scratch_key;
static __thread char *scratch;
static __thread uint64_t scratch_capacity;

static const int kChunksPerThread = 8;
static const long kBusySpinNs = 50 * 1000;   // then give the core away between looks
static long spin_ns = 1000 * 1000;           // then sleep

__attribute__((constructor)) static void create_pool() {
    void *page = mmap(nullptr, sizeof(Pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) abort();
    wiped_on_fork = madvise(page, sizeof(Pool), MADV_WIPEONFORK) == 0;
    pool = (Pool *)page;
    pool->owner = getpid();
    pthread_key_create(&scratch_key, free);
}

static void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

static long now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void futex(uint32_t *word, int operation, uint32_t value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

static char *reserve_scratch(uint64_t bytes) {
    if (bytes <= scratch_capacity) return scratch;
    free(scratch);
    scratch_capacity = 0;
    scratch = (char *)aligned_alloc(64, (bytes + 63) & ~(uint64_t)63);
    if (scratch) scratch_capacity = bytes;
    pthread_setspecific(scratch_key, scratch);
    return scratch;
}

static int run_here(const Request *r, long total) {
    char *memory = reserve_scratch(r->scratch_bytes);
    if (r->scratch_bytes && !memory) return kNoMemory;
    r->run(0, total, r->grid, r->args, memory);
    return kDone;
}

static int take_chunks(Pool *p) {
    const Request *r = p->request;
    const long total = p->total, chunk = p->chunk;
    char *memory = reserve_scratch(r->scratch_bytes);
    if (r->scratch_bytes && !memory) return kNoMemory;
    for (;;) {
        long lo = __atomic_fetch_add(&p->next, chunk, __ATOMIC_RELAXED);
        if (lo >= total) return kDone;
        r->run(lo, lo + chunk < total ? lo + chunk : total, r->grid, r->args, memory);
    }
}

static uint32_t wait_for_launch(Pool *p, uint32_t seen) {
    const long start = now_ns();
    for (long waited = 0; waited < __atomic_load_n(&spin_ns, __ATOMIC_RELAXED); waited = now_ns() - start) {
        for (int i = 0; i < 64; i++) {
            uint32_t value = __atomic_load_n(&p->signal, __ATOMIC_ACQUIRE);
            if (value != seen) return value;
            pause_briefly();
        }
        if (waited > kBusySpinNs) sched_yield();
    }
    __atomic_fetch_add(&p->sleepers, 1, __ATOMIC_SEQ_CST);
    uint32_t value;
    while ((value = __atomic_load_n(&p->signal, __ATOMIC_SEQ_CST)) == seen) futex(&p->signal, FUTEX_WAIT, seen);
    __atomic_fetch_sub(&p->sleepers, 1, __ATOMIC_SEQ_CST);
    return value;
}

static void *work(void *argument) {
    Pool *p = (Pool *)argument;
    for (uint32_t seen = 0;;) {
        seen = wait_for_launch(p, seen);
        uint64_t gate = __atomic_load_n(&p->gate, __ATOMIC_ACQUIRE);
        while ((gate >> 32) == seen && (gate & 0xffff) < (gate >> 16 & 0xffff)) {
            if (!__atomic_compare_exchange_n(&p->gate, &gate, gate + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                continue;
            take_chunks(p);
            __atomic_fetch_add(&p->finished, 1, __ATOMIC_RELEASE);
            break;
        }
    }
    return nullptr;
}

// Starts up to `wanted` threads and returns how many: fewer (a process limit, say) only make a launch slower.
static int start_threads(int wanted, void *(*function)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    sigset_t all, before;
    sigfillset(&all);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (int fault : faults) sigdelset(&all, fault);  // a fault is its own thread's: blocked, it would reach no handler
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals stay with the threads the program knows
    pthread_t thread;
    int started = 0;
    while (started < wanted && pthread_create(&thread, &attributes, function, argument) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return started;
}

static int run_on_pool(Pool *p, const Request *r, long total, int threads) {
    if (p->workers < threads - 1) p->workers += start_threads(threads - 1 - p->workers, work, p);
    int helpers = p->workers < threads - 1 ? p->workers : threads - 1;
    long chunk = total / ((long)kChunksPerThread * threads);
    p->request = r;
    p->total = total;
    p->chunk = chunk > 1 ? chunk : 1;
    p->next = 0;
    p->finished = 0;
    if (++p->sequence == 0) p->sequence = 1;
    __atomic_store_n(&p->gate, (uint64_t)p->sequence << 32 | (uint64_t)helpers << 16, __ATOMIC_RELEASE);
    __atomic_store_n(&p->signal, p->sequence, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST)) futex(&p->signal, FUTEX_WAKE, helpers);

    int status = take_chunks(p);
    uint32_t joined = __atomic_exchange_n(&p->gate, 0, __ATOMIC_ACQ_REL) & 0xffff;
    const long start = now_ns();
    while (__atomic_load_n(&p->finished, __ATOMIC_ACQUIRE) != joined) {
        for (int i = 0; i < 64; i++) pause_briefly();
        if (now_ns() - start > kBusySpinNs) sched_yield();
    }
    return p->next >= total ? kDone : status;
}

// False where the grid is too large; `total` is 0 for a grid that runs nothing.
static bool count_programs(const Request *r, long *total) {
    *total = 0;
    if (r->grid[0] <= 0 || r->grid[1] <= 0 || r->grid[2] <= 0) return true;
    return !__builtin_mul_overflow((long)r->grid[0] * r->grid[1], (long)r->grid[2], total) && *total <= 1L << 62;
}

// How long threads spin after a launch before they sleep.
extern "C" void kernelsmith_spin(long ns) { __atomic_store_n(&spin_ns, ns, __ATOMIC_RELAXED); }

// Runs one program instance of the grid on the calling thread.
extern "C" int kernelsmith_launch_one(const Request *r, long index) {
    long total;
    if (!count_programs(r, &total)) return kGridTooLarge;
    char *memory = reserve_scratch(r->scratch_bytes);
    if (r->scratch_bytes && !memory) return kNoMemory;
    if (index >= 0 && index < total) r->run(index, index + 1, r->grid, r->args, memory);
    return kDone;
}

// ---- launches that meet ----
//
// To find out what calls do to each other. A thread with a seat waits at its launch until all others with a seat have
// come to one of theirs or have left; then they take turns, a few program instances each. So every launch is under way
// while the others' programs run, whoever wakes first and however few cores there are.

static const int kSeats = 64;
static const int kNobody = -1;
static const long kTurns = 64;  // most turns of one launch: each wakes a thread

struct Seat {
    pthread_cond_t called;
    bool taken, waits, runs;
};

struct Meeting {
    pthread_mutex_t lock;
    Seat seats[kSeats];
    int taken, waiting;
    int turn;
};

static Meeting meeting = {PTHREAD_MUTEX_INITIALIZER, {}, 0, 0, kNobody};
static __thread int my_seat = kNobody;

// The next seat whose launch runs, from the one behind `seat` round to itself. The caller holds the lock, here and in
// the two below.
static int next_running(int seat) {
    for (int i = 1; i <= kSeats; i++)
        if (meeting.seats[(seat + i) % kSeats].runs) return (seat + i) % kSeats;
    return kNobody;
}

static void give_turn(int seat) {
    meeting.turn = seat;
    if (seat != kNobody) pthread_cond_signal(&meeting.seats[seat].called);
}

static void begin_if_all_wait() {
    if (meeting.turn != kNobody || !meeting.waiting || meeting.waiting < meeting.taken) return;
    for (Seat &seat : meeting.seats) {
        seat.runs = seat.waits;
        seat.waits = false;
    }
    meeting.waiting = 0;
    give_turn(next_running(kSeats - 1));
}

static void await_turn() {
    while (meeting.turn != my_seat) pthread_cond_wait(&meeting.seats[my_seat].called, &meeting.lock);
}

// A seat for the calling thread; 0 where there is none left.
extern "C" int kernelsmith_sit() {
    pthread_mutex_lock(&meeting.lock);
    for (int i = 0; i < kSeats && my_seat == kNobody; i++) {
        if (meeting.seats[i].taken) continue;
        my_seat = i;
        meeting.taken++;
        meeting.seats[i].taken = true;
    }
    pthread_mutex_unlock(&meeting.lock);
    return my_seat != kNobody;
}

// Gives the seat back, if the calling thread has one: the others wait for it no more. Returns whether it had.
extern "C" int kernelsmith_leave() {
    if (my_seat == kNobody) return 0;
    pthread_mutex_lock(&meeting.lock);
    meeting.seats[my_seat].taken = false;
    meeting.taken--;
    my_seat = kNobody;
    begin_if_all_wait();
    pthread_mutex_unlock(&meeting.lock);
    return 1;
}

// Runs the first `total` program instances in turn with the other launches that meet.
static int run_in_turn(const Request *r, long total) {
    char *memory = reserve_scratch(r->scratch_bytes);
    const bool able = memory || !r->scratch_bytes;
    pthread_mutex_lock(&meeting.lock);
    Seat &seat = meeting.seats[my_seat];
    seat.waits = true;
    meeting.waiting++;
    begin_if_all_wait();
    await_turn();
    const long part = (total + kTurns - 1) / kTurns;
    for (long i = 0; able && i < total; i += part) {
        pthread_mutex_unlock(&meeting.lock);
        r->run(i, i + part < total ? i + part : total, r->grid, r->args, memory);
        pthread_mutex_lock(&meeting.lock);
        if (next_running(my_seat) == my_seat) continue;
        give_turn(next_running(my_seat));
        await_turn();
    }
    seat.runs = false;
    give_turn(next_running(my_seat));
    pthread_mutex_unlock(&meeting.lock);
    return able ? kDone : kNoMemory;
}

// Runs the whole grid and returns when it is done. Callable from any thread: while one launch owns the pool, another
// runs on its caller alone.
extern "C" int kernelsmith_launch(const Request *r) {
    long total;
    if (!count_programs(r, &total)) return kGridTooLarge;
    if (total == 0) return kDone;
    if (my_seat != kNobody) return run_in_turn(r, total);
    Pool *p = pool;
    if (!wiped_on_fork && p->owner != getpid()) {
        memset((void *)p, 0, sizeof *p);
        p->owner = getpid();
    }
    int threads = r->threads < total ? r->threads : (int)total;
    if (threads > 0xffff) threads = 0xffff;
    if (threads <= 1 || __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE)) return run_here(r, total);
    int status = run_on_pool(p, r, total, threads);
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
    return status;
}

// ---- kernels whose program instances may wait for each other ----
//
// Every instance that has begun has a thread of its own until it ends, and instances begin in order, so a lock's holder
// always runs. An instance that waits for one that has not begun (a barrier across the grid) asks for another thread:
// the number of threads grows for as long as nobody begins and somebody waits.

struct Team {
    const Request *request;
    long total;
    long next;        // first program instance that nobody took
    uint32_t running; // helping threads that have not ended
};

static __thread Team *team;
static __thread long seen_next;

static void run_one_by_one(Team *t) {
    const Request *r = t->request;
    char *memory = reserve_scratch(r->scratch_bytes);
    if (r->scratch_bytes && !memory) return;
    Team *outer = team;
    team = t;
    seen_next = -1;
    for (long i; (i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->total;)
        r->run(i, i + 1, r->grid, r->args, memory);
    team = outer;
}

static void *help(void *argument) {
    Team *t = (Team *)argument;
    run_one_by_one(t);
    // The team may be gone right after the last decrement; the address is only a name for the kernel then.
    if (__atomic_sub_fetch(&t->running, 1, __ATOMIC_ACQ_REL) == 0) futex(&t->running, FUTEX_WAKE, 1);
    return nullptr;
}

static void add_helper(Team *t) {
    __atomic_fetch_add(&t->running, 1, __ATOMIC_RELAXED);
    if (start_threads(1, help, t) == 0) __atomic_fetch_sub(&t->running, 1, __ATOMIC_RELAXED);
}

// Called by a program instance that has been waiting for a while.
extern "C" void kernelsmith_stalled() {
    Team *t = team;
    if (t) {
        long next = __atomic_load_n(&t->next, __ATOMIC_RELAXED);
        if (next < t->total && next == seen_next) add_helper(t);
        seen_next = next;
    }
    sched_yield();
}

// Like kernelsmith_launch, for a kernel whose program instances may wait for each other.
extern "C" int kernelsmith_launch_waiting(const Request *r) {
    long total;
    if (!count_programs(r, &total)) return kGridTooLarge;
    if (total == 0) return kDone;
    if (my_seat != kNobody) run_in_turn(r, 0);  // begin together; programs that wait for each other cannot take turns
    Team t = {r, total, 0, 0};
    for (long i = 1; i < r->threads && i < total; i++) add_helper(&t);
    run_one_by_one(&t);
    for (uint32_t left; (left = __atomic_load_n(&t.running, __ATOMIC_ACQUIRE)) != 0;) futex(&t.running, FUTEX_WAIT, left);
    return t.next >= total ? kDone : kNoMemory;
}
