// Decides what the quick tests of a checked kernel (checked.h) leave open, and keeps the reports. types.h and
// checked_abi.h stand before this text. One launch at a time has a monitor of its own; its lock covers all that it holds.
//
// Races are found as FastTrack does (Flanagan and Freund, PLDI 2009), with program instances for threads: an element
// knows who wrote it last and at what count of that program's releases, and a release through an atomic operation hands
// all that its program knows to whoever acquires from the same address. Program instances are otherwise unordered.

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

enum Schedule { kParallel = 0, kReversed = 1, kShuffled = 2, kDeferred = 3, kInterleaved = 4 };

struct Report {  // as in monitor.py
    i32 fault, site, segment, pad;
    u32 program, other;
    i64 lane, a, b;
    u64 count;
};

// What a program instance has learnt: of each address that releases went to, how many of them, ordered by address.
typedef std::vector<std::pair<i64, u64>> Known;

struct Release {
    u32 clock;  // the releasing program's count of releases
    u64 place;  // among all releases to the address
};

// The releases to one address: a program instance that acquires from it learns of all so far, and of what those who
// released knew. Lists that only grow, and prefixes of them, keep a counter that every program instance goes through
// from costing the square of their number.
struct Published {
    u64 count = 0;
    std::unordered_map<u32, std::vector<Release>> by_program;
    Known known;
};

struct Deferred {
    char *at;
    i32 size;
    char bytes[8];
};

struct Monitor {
    i32 lock = 0;
    i32 segments = 0;
    i32 trusting = 0;  // an address that belongs to no tensor may be another tensor's
    i32 schedule = kParallel;
    i32 active = 0;  // program instances that run
    u64 moves = 0;   // how often one began, ended, or changed what others may wait for
    std::vector<KsCheck *> waiting;  // those that run and have looked for a change
    std::map<std::pair<i32, i32>, Report> reports;
    std::unordered_map<i64, Published> published;  // by address
    std::vector<Deferred> mine, others;        // stores of this program instance, and of those before it
    std::unordered_map<i64, size_t> latest;    // the last one of `others` by address
};

struct Guard {
    i32 *lock;
    explicit Guard(Monitor *m) : lock(&m->lock) {
        while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
    }
    ~Guard() { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }
};

static const long kFreshNs = 100L * 1000 * 1000;         // who looked this long ago has got on since
static const long kOnItsWayNs = 2L * 1000 * 1000;       // how long a store may take that was announced
static const long kPatienceNs = 500L * 1000 * 1000;     // how long all must have waited for it to be a deadlock

static Monitor *monitor_of(KsCheck *c) { return (Monitor *)c->context->monitor; }

static long now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void add_report(Monitor *m, KsCheck *c, i32 fault, i32 site, i32 segment, u32 other, i64 lane, i64 a, i64 b) {
    Report &r = m->reports.emplace(std::make_pair(fault, site), Report{fault, site, segment, 0, c->me, other, lane, a, b, 0}).first->second;
    r.count++;
}

static void report(KsCheck *c, i32 fault, i32 site, i64 lane, i64 a, i64 b) {
    Monitor *m = monitor_of(c);
    Guard guard(m);
    add_report(m, c, fault, site, -1, 0, lane, a, b);
}

// ---- what is ordered before what ----

static void merge(Known &into, const Known &from) {
    if (from.empty()) return;
    Known result;
    result.reserve(into.size() + from.size());
    auto a = into.begin();
    auto b = from.begin();
    while (a != into.end() || b != from.end()) {
        if (b == from.end() || (a != into.end() && a->first < b->first)) result.push_back(*a++);
        else if (a == into.end() || b->first < a->first) result.push_back(*b++);
        else {
            result.push_back({a->first, std::max(a->second, b->second)});
            ++a, ++b;
        }
    }
    into.swap(result);
}

// Whether a program instance knows of a release by another one at or after the count of releases that an element holds.
static bool ordered(KsCheck *c, u32 other, const u32 *clocks, u64 at) {
    if (!clocks || !c->known) return false;
    const auto &published = monitor_of(c)->published;
    for (const auto &entry : *(const Known *)c->known) {
        const Published &there = published.find(entry.first)->second;
        auto found = there.by_program.find(other);
        if (found == there.by_program.end()) continue;
        const auto first = std::lower_bound(found->second.begin(), found->second.end(), clocks[at],
                                            [](const Release &r, u32 clock) { return r.clock < clock; });
        if (first != found->second.end() && first->place < entry.second) return true;
    }
    return false;
}

static void release(KsCheck *c, i64 address) {
    Monitor *m = monitor_of(c);
    Guard guard(m);
    Published &there = m->published[address];
    there.by_program[c->me].push_back({c->clock, there.count++});
    if (c->known) merge(there.known, *(const Known *)c->known);
    c->clock++;
    m->mine.clear();  // what was stored so far is seen from here on
}

static void acquire(KsCheck *c, i64 address) {
    Monitor *m = monitor_of(c);
    Guard guard(m);
    auto found = m->published.find(address);
    if (found == m->published.end()) return;
    if (!c->known) c->known = new Known();
    merge(*(Known *)c->known, found->second.known);
    merge(*(Known *)c->known, Known{{address, found->second.count}});
}

// ---- one access ----

static i32 segment_of(KsCheck *c, i32 given, i64 address, i32 size) {
    if (given >= 0) return given;
    for (i32 i = 0; i < monitor_of(c)->segments; ++i) {
        const KsSegment &s = c->segments[i];
        const u64 at = (u64)address - (u64)s.lo;
        if (s.lo && at < s.bytes && at + (u64)size <= s.bytes) return i;
    }
    return -1;
}

struct Place {
    Monitor *m;
    KsCheck *c;
    const KsAccess *a;
    const KsSegment *s;
    i32 segment;
    i64 lane;
    i64 address;
    u64 first, last;  // granules
};

static void blame(const Place &p, i32 fault, u32 other, i64 b) {
    add_report(p.m, p.c, fault, p.a->site, p.segment, other, p.lane, p.address, b);
}

static bool is_race(const Place &p, u32 other, const u32 *clocks, u64 g) {
    return other >= p.c->base && other != p.c->me && !ordered(p.c, other, clocks, g);
}

static void note_load(const Place &p) {
    const KsSegment &s = *p.s;
    for (u64 g = p.first; g <= p.last; ++g) {
        const bool atomic = p.a->kind == KS_VOLATILE && s.stamp && s.stamp[g] == KS_UPDATED;
        if (s.owner[g] == 0) return blame(p, KS_UNWRITTEN, 0, 0);
        if (!atomic && is_race(p, s.owner[g], s.owner_clock, g)) return blame(p, KS_RACE, s.owner[g], 0);
        if (!s.reader || p.a->kind == KS_VOLATILE) continue;
        if (!s.reader_clock && s.reader[g] >= p.c->base && s.reader[g] != p.c->me) s.reader[g] = KS_MANY;
        else if (s.reader[g] < p.c->base || !is_race(p, s.reader[g], s.reader_clock, g)) {
            s.reader[g] = p.c->me;
            if (s.reader_clock) s.reader_clock[g] = p.c->clock;
        }
    }
}

// Whether a lane of the same store put another value there: an earlier lane of this vector, or of an earlier vector.
static bool conflicts(const Place &p, i32 lane) {
    const KsAccess &a = *p.a;
    const char *value = a.values + lane * a.size;
    for (i32 l = lane - 1; l >= 0; --l)
        if ((a.active >> l & 1) && a.address[l] == a.address[lane]) return memcmp(a.values + l * a.size, value, (size_t)a.size) != 0;
    return memcmp((const char *)a.address[lane], value, (size_t)a.size) != 0;
}

// Whether an element holds what this lane is about to store, so that it does not matter who comes last. The other's
// store may be kept back until the launch ends; in a parallel launch it may be on its way, which is worth a wait where
// nothing was reported yet.
static bool holds_same(const Place &p, i32 lane) {
    if (p.a->kind != KS_STORE) return false;
    const char *value = p.a->values + lane * p.a->size;
    auto kept = p.m->latest.find(p.address);
    if (kept != p.m->latest.end() && p.m->others[kept->second].size == p.a->size)
        return memcmp(p.m->others[kept->second].bytes, value, (size_t)p.a->size) == 0;
    const bool patient = p.m->schedule == kParallel && !p.m->reports.count(std::make_pair((i32)KS_RACE, p.a->site));
    for (const long start = now_ns();;) {
        if (memcmp((const char *)p.address, value, (size_t)p.a->size) == 0) return true;
        if (!patient || now_ns() - start > kOnItsWayNs) return false;
        sched_yield();
    }
}

static void note_write(const Place &p, i32 lane) {
    const KsSegment &s = *p.s;
    const bool atomic = p.a->kind == KS_ATOMIC;
    for (u64 g = p.first; g <= p.last; ++g) {
        const u32 owner = s.owner[g];
        const bool both_atomic = atomic && s.stamp && s.stamp[g] == KS_UPDATED && owner >= p.c->base;
        if (atomic && owner == 0) blame(p, KS_UNWRITTEN, 0, 0);
        if (!both_atomic && is_race(p, owner, s.owner_clock, g)) {
            if (!holds_same(p, lane)) blame(p, KS_RACE, owner, 1);
        }
        else if (s.reader && is_race(p, s.reader[g], s.reader_clock, g)) blame(p, KS_RACE, s.reader[g], 2);
        else if (!atomic && owner == p.c->me && s.stamp && s.stamp[g] == p.c->serial && g == p.first && conflicts(p, lane))
            blame(p, KS_CONFLICT, 0, 0);
        // A plain write is what others can race with, so an atomic one after it by the same program does not hide it.
        if (atomic && owner == p.c->me) continue;
        s.owner[g] = p.c->me;
        if (s.stamp) s.stamp[g] = atomic ? KS_UPDATED : p.c->serial;
        if (s.owner_clock) s.owner_clock[g] = p.c->clock;
        if (s.reader && s.reader[g] >= p.c->base) s.reader[g] = p.c->me;
    }
    if (p.m->schedule == kDeferred && !atomic) {
        Deferred d{(char *)p.address, p.a->size, {}};
        memcpy(d.bytes, d.at, (size_t)d.size);
        p.m->mine.push_back(d);
    }
}

static void take_turns(bool waits);

static u32 examine(KsCheck *c, const KsAccess *a) {
    if (a->kind == KS_ATOMIC || a->kind == KS_VOLATILE) take_turns(false);
    Monitor *m = monitor_of(c);
    Guard guard(m);
    u32 allowed = 0;
    for (i32 l = 0; l < 16; ++l) {
        if (!(a->lanes >> l & 1)) continue;
        const i32 segment = segment_of(c, a->segment, a->address[l], a->size);
        Place p{m, c, a, segment < 0 ? nullptr : c->segments + segment, segment, a->lane < 0 ? -1 : a->lane + (i64)a->lane_stride * l,
                a->address[l], 0, 0};
        if (!p.s && m->trusting) {
            allowed |= 1u << l;
            continue;
        }
        const u64 at = p.s ? (u64)p.address - (u64)p.s->lo : 0;
        if (!p.s || p.s->bytes < (u64)a->size || at > p.s->bytes - (u64)a->size) {
            blame(p, KS_BOUNDS, 0, a->kind);
            continue;
        }
        p.first = at >> p.s->shift;
        p.last = (at + (u64)a->size - 1) >> p.s->shift;
        bool inside = true;
        for (u64 g = p.first; p.s->valid && g <= p.last; ++g) inside = inside && p.s->valid[g];
        if (!inside) {
            blame(p, KS_BOUNDS, 0, a->kind);
            continue;
        }
        allowed |= 1u << l;
        if (!p.s->owner) continue;
        if (a->kind == KS_LOAD || a->kind == KS_VOLATILE) note_load(p);
        else note_write(p, l);
        // Stored here as well, so that whoever asks next sees it.
        if (a->kind == KS_STORE) memcpy((char *)a->address[l], a->values + l * a->size, (size_t)a->size);
    }
    return allowed;
}

// ---- a program instance begins, waits and ends ----

static void begin(KsCheck *c) {
    Monitor *m = monitor_of(c);
    __atomic_fetch_add(&m->active, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->moves, 1, __ATOMIC_RELAXED);
}

// Puts back what the stores of this program instance overwrote, and keeps what they stored for the end of the launch.
static void hide_stores(Monitor *m) {
    for (Deferred &d : m->mine) {
        Deferred stored = d;
        memcpy(stored.bytes, d.at, (size_t)d.size);
        m->latest[(i64)d.at] = m->others.size();
        m->others.push_back(stored);
    }
    for (auto d = m->mine.rbegin(); d != m->mine.rend(); ++d) memcpy(d->at, d->bytes, (size_t)d->size);
    m->mine.clear();
}

static void end(KsCheck *c) {
    Monitor *m = monitor_of(c);
    delete (Known *)c->known;
    if (c->spun) {
        Guard guard(m);
        m->waiting.erase(std::find(m->waiting.begin(), m->waiting.end(), c));
    }
    __atomic_fetch_sub(&m->active, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->moves, 1, __ATOMIC_RELAXED);
    if (m->schedule == kDeferred) hide_stores(m);
}

static void moved(KsCheck *c) { __atomic_fetch_add(&monitor_of(c)->moves, 1, __ATOMIC_RELAXED); }

static bool all_wait(Monitor *m, i64 now) {
    Guard guard(m);
    i32 count = 0;
    for (const KsCheck *c : m->waiting) count += now - __atomic_load_n(&c->beat, __ATOMIC_RELAXED) < kFreshNs;
    return count >= __atomic_load_n(&m->active, __ATOMIC_RELAXED);
}

// Called now and then in a loop that waits. If all program instances that run are in such a loop, and for a while none
// has begun, ended, stored anything or changed anything by an atomic operation, none ever will. True: give up.
static i32 spin(KsCheck *c, i32 site) {
    Monitor *m = monitor_of(c);
    if (__atomic_load_n(&c->context->stop, __ATOMIC_RELAXED)) return 1;
    const i64 now = now_ns();
    if (!c->spun) {
        Guard guard(m);
        m->waiting.push_back(c);
        c->spun = true;
        c->since = now;
    }
    if (c->serial != c->seen_serial) moved(c);
    c->seen_serial = c->serial;
    const u64 moves = __atomic_load_n(&m->moves, __ATOMIC_RELAXED);
    const bool still = c->moves == moves && now - c->beat < kFreshNs;
    __atomic_store_n(&c->beat, now, __ATOMIC_RELAXED);
    c->moves = moves;
    if (!still || !all_wait(m, now)) {
        c->since = now;
        take_turns(false);
        sched_yield();
        return 0;
    }
    take_turns(true);
    if (now - c->since < kPatienceNs) return 0;
    if (!__atomic_exchange_n(&c->context->stop, 1, __ATOMIC_RELAXED)) report(c, KS_DEADLOCK, site, -1, 0, 0);
    return 1;
}

// ---- program instances that take turns at their atomic operations ----
//
// On one thread, each on a stack of its own; before an atomic operation, or where it waits, a program instance may have
// to stand back for others, as a seed decides. What goes wrong between two atomic operations of one program, in a window
// of nanoseconds on a device, then goes wrong in most runs (Burckhardt et al., "A randomized scheduler with
// probabilistic guarantees of finding bugs", ASPLOS 2010, says how little it takes).

typedef void (*Run)(long lo, long hi, const int *grid, const unsigned long long *args, char *scratch);
struct Request {  // as in pool.cpp
    Run run;
    u64 scratch_bytes;
    i32 grid[3];
    i32 threads;
    unsigned long long args[];
};

struct Strand {
    ucontext_t context;
    void *stack = MAP_FAILED;
    char *scratch = nullptr;
    bool done = false;
    ~Strand();
};

struct Interleaving {
    const Request *request;
    const KsContext *context;
    i64 total, next = 0;
    u64 random, turns = 0;
    ucontext_t home;
    Strand *running = nullptr;
    std::vector<std::unique_ptr<Strand>> strands;
};

static const u64 kStackBytes = 8ul << 20;  // as the pool's threads have; pages that nobody touches cost nothing
static const size_t kStrands = 16;         // that begin at once
static const size_t kMostStrands = 512;    // where those wait for others
static const u64 kMostTurns = 20000;       // then one in kRarely, so that no launch takes minutes
static const u64 kRarely = 64;

static __thread Interleaving *interleaving;

Strand::~Strand() {
    if (stack != MAP_FAILED) munmap(stack, kStackBytes);
    free(scratch);
}

// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
static u64 drawn(Interleaving *i) {
    i->random ^= i->random >> 12;
    i->random ^= i->random << 25;
    i->random ^= i->random >> 27;
    return i->random * 0x2545f4914f6cdd1dul >> 16;
}

static void run_strand() {
    Interleaving *i = interleaving;
    Strand *me = i->running;
    const Request *r = i->request;
    while (i->next < i->total && !i->context->stop) {
        const i64 p = i->next++;
        r->run(p, p + 1, r->grid, r->args, me->scratch);
    }
    me->done = true;
    swapcontext(&me->context, &i->home);
}

static bool add_strand(Interleaving *i) {
    std::unique_ptr<Strand> strand(new Strand);
    strand->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    strand->scratch = (char *)aligned_alloc(64, (i->request->scratch_bytes + 64) & ~63ul);
    if (strand->stack == MAP_FAILED || !strand->scratch) return false;
    getcontext(&strand->context);
    strand->context.uc_stack.ss_sp = strand->stack;
    strand->context.uc_stack.ss_size = kStackBytes;
    strand->context.uc_link = nullptr;
    makecontext(&strand->context, run_strand, 0);
    i->strands.push_back(std::move(strand));
    return true;
}

// Somebody else's turn, maybe. `waits`: nobody got on for a while, so one more begins.
static void take_turns(bool waits) {
    Interleaving *i = interleaving;
    if (!i || !i->running) return;
    if (waits && i->next < i->total && i->strands.size() < kMostStrands) add_strand(i);
    if (!waits && i->turns++ > kMostTurns && drawn(i) % kRarely) return;
    swapcontext(&i->running->context, &i->home);
}

static i32 run_interleaved(const Request *r, KsContext *context, i64 total, u64 seed) {
    Interleaving i;
    i.request = r;
    i.context = context;
    i.total = total;
    i.random = seed * 2 + 1;
    for (size_t n = 0; n < kStrands && (i64)n < total; ++n)
        if (!add_strand(&i)) return 1;
    interleaving = &i;
    while (!i.strands.empty()) {
        const size_t n = drawn(&i) % i.strands.size();
        i.running = i.strands[n].get();
        swapcontext(&i.home, &i.running->context);
        if (i.running->done) i.strands.erase(i.strands.begin() + (long)n);
        i.running = nullptr;
    }
    interleaving = nullptr;
    return 0;
}

// ---- the interface to monitor.py ----

extern "C" void kernelsmith_monitor_start(KsContext *context, i32 segments, i32 schedule, i32 trusting) {
    Monitor *m = new Monitor();
    m->segments = segments;
    m->trusting = trusting;
    m->schedule = schedule;
    context->monitor = m;
    context->examine = examine;
    context->report = report;
    context->release = release;
    context->acquire = acquire;
    context->moved = moved;
    context->spin = spin;
    context->begin = begin;
    context->end = end;
}

// A permutation of 0..total-1 without a table: a Feistel network over the next even number of bits, walked until it
// lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
static u64 shuffled(u64 index, u64 total, u64 seed) {
    i32 half = 1;
    while (half < 31 && (1ul << 2 * half) < total) half++;
    const u64 mask = (1ul << half) - 1;
    do {
        u64 left = index >> half, right = index & mask;
        for (u64 round = 0; round < 4; ++round) {
            u64 mixed = (right + 1) * 0x9e3779b97f4a7c15ul ^ (seed + round) * 0xbf58476d1ce4e5b9ul;
            mixed ^= mixed >> 29;
            mixed *= 0x94d049bb133111ebul;
            const u64 next = left ^ (mixed >> 32 & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= total);
    return index;
}

// Runs the grid on this thread, in an order other than the usual. 0, or 1 if there is no memory.
extern "C" i32 kernelsmith_monitor_run(const Request *r, KsContext *context, u64 seed) {
    Monitor *m = (Monitor *)context->monitor;
    const i64 total = (i64)r->grid[0] * r->grid[1] * r->grid[2];
    if (m->schedule == kInterleaved) return run_interleaved(r, context, total, seed);
    char *scratch = (char *)aligned_alloc(64, (r->scratch_bytes + 64) & ~63ul);
    if (!scratch) return 1;
    for (i64 i = 0; i < total && !context->stop; ++i) {
        const i64 p = m->schedule == kReversed ? total - 1 - i : m->schedule == kShuffled ? (i64)shuffled((u64)i, (u64)total, seed) : i;
        r->run(p, p + 1, r->grid, r->args, scratch);
    }
    for (const Deferred &d : m->others) memcpy(d.at, d.bytes, (size_t)d.size);
    m->others.clear();
    free(scratch);
    return 0;
}

// Writes at most `room` reports, in the order of fault and site, and returns how many there are; frees the monitor.
extern "C" i32 kernelsmith_monitor_end(KsContext *context, Report *into, i32 room) {
    Monitor *m = (Monitor *)context->monitor;
    i32 count = 0;
    for (const auto &entry : m->reports)
        if (count++ < room) into[count - 1] = entry.second;
    delete m;
    context->monitor = nullptr;
    return count;
}
