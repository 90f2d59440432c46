// What checked kernels and their monitor share. The layout is that of the ctypes structures in monitor.py.

// One pointer argument's tensor view, and the shadows of its memory. A shadow has an entry per granule of `1 << shift`
// bytes. `owner` says who wrote it last: 0 nobody, below `base` somebody before this launch, else a program instance of
// this launch; `reader` is the first program instance that read it since. `stamp` numbers the store of that write.
struct KsSegment {
  char *lo;
  u64 bytes;
  const u8 *valid;  // per granule, for views with gaps; null: all of it
  u32 *owner;       // null: nobody writes here and all of it was written
  u32 *reader;      // null: no launch both reads and writes here
  u32 *stamp;
  u32 *owner_clock, *reader_clock;  // null: the kernel synchronises nothing
  i32 shift;
  i32 kept_back;    // every store goes by the monitor, which keeps it from the others
};

static const u32 KS_MANY = 0xffffffff;    // a reader: several program instances
static const u32 KS_UPDATED = 0xffffffff;  // a stamp: the write was atomic

enum KsAccessKind { KS_LOAD = 0, KS_VOLATILE = 1, KS_STORE = 2, KS_ATOMIC = 3 };
enum KsFault { KS_BOUNDS = 0, KS_UNWRITTEN, KS_RACE, KS_CONFLICT, KS_WRAP, KS_DIVISION, KS_ASSERTION, KS_DEADLOCK };
enum KsOrder { KS_RELAXED = 0, KS_ACQUIRE = 1, KS_RELEASE = 2 };

struct KsAccess {
  i32 kind, site, segment, size;
  u32 lanes, active;        // those that are asked about, and all that take part: a bit each
  i32 lane_stride;
  i64 lane;                 // place of lane 0 in the tile, -1 where it is not known
  i64 address[16];
  const char *values;       // of a store, `size` bytes per lane
};

struct KsContext;
struct KsCheck;
struct KsContext {
  const KsSegment *segments;
  const char *const *patterns;  // per site: what masked-off lanes hold, 128 bytes per element type
  u8 *masked;                   // per site: whether a lane was masked off
  u32 base;
  i32 stop;                     // a deadlock ended the launch
  void *monitor;
  u32 (*examine)(KsCheck *, const KsAccess *);
  void (*report)(KsCheck *, i32 fault, i32 site, i64 lane, i64 a, i64 b);
  void (*release)(KsCheck *, i64 address);
  void (*acquire)(KsCheck *, i64 address);
  void (*moved)(KsCheck *);  // memory changed that others may wait for
  i32 (*spin)(KsCheck *, i32 site);
  void (*begin)(KsCheck *);
  void (*end)(KsCheck *);
};

// One program instance.
struct KsCheck {
  const KsSegment *segments;
  KsContext *context;
  u32 me, base, serial, clock;
  u32 spins, seen_serial;
  bool spun;         // has looked for something to change at least once
  i64 beat, since;   // when it last looked, and since when nothing has changed
  u64 moves;         // of the monitor, at that time
  char before[8];    // what an atomic operation found
  void *known;  // what this program instance has synchronised with; the monitor's own

  KsCheck(KsContext *c, u64 program)
      : segments(c->segments), context(c), me(c->base + (u32)program), base(c->base), serial(0), clock(1), spins(0), seen_serial(0), spun(false), beat(0), since(0), moves(0), known(0) {
    c->begin(this);
  }
  ~KsCheck() { context->end(this); }
};
