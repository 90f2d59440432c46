// What a checked kernel has beside the prelude: the quick answer to "may these lanes access that?". It covers an access
// inside one view whose elements nobody else touched; all else goes to the monitor (cpp/monitor.cpp), lane by lane.

#define KS_LIKELY(x) __builtin_expect(!!(x), 1)
#define KS_MEMBER inline __attribute__((always_inline))
#define KS_COLD static __attribute__((noinline, cold))

KS_INLINE vi32 ks_all() { return ks_splat<vi32>(-1); }
#if defined(KS_AVX512)
KS_INLINE u32 ks_bits(vi32 m) { u16 k; __asm__("vpmovd2m %1, %0" : "=Yk"(k) : "v"(m)); return k; }
#else
KS_INLINE u32 ks_bits(vi32 m) { u32 r = 0; for (int l = 0; l < KS_W; ++l) r |= (m[l] & 1u) << l; return r; }
#endif
KS_INLINE bool ks_none(vi32 m) { return ks_bits(m) == 0; }

struct KsNoValues {
  void operator()(char *) const {}
};

template <int SIZE, class Values>
KS_COLD vi32 ks_ask(KsCheck &c, i32 kind, i32 site, i32 segment, vi64 address, vi32 mask, vi32 active, i64 lane, i64 stride, Values values) {
  alignas(64) char stored[KS_W * 8];
  KsAccess a;
  a.kind = kind; a.site = site; a.segment = segment; a.size = SIZE;
  a.lane = lane; a.lane_stride = (i32)stride;
  a.lanes = a.active = 0;
  for (int l = 0; l < KS_W; ++l) {
    a.address[l] = address[l];
    if (mask[l]) a.lanes |= 1u << l;
    if (active[l]) a.active |= 1u << l;
  }
  if (kind == KS_STORE) values(stored);
  a.values = stored;
  const u32 allowed = c.context->examine(&c, &a);
  vi32 r;
  for (int l = 0; l < KS_W; ++l) r[l] = allowed >> l & 1 ? -1 : 0;
  return r;
}

// A program instance's own copy of a segment, so that no store makes the compiler read it again. `number` is the
// argument's; -1: an address of unknown origin, which only the monitor can place.
struct KsView {
  u64 lo, bytes;
  const u8 *valid;
  u32 *owner, *reader, *owner_clock, *reader_clock;
  u32 *stamp;
  i32 shift, kept_back, number;
  u32 me, base;
  KS_MEMBER KsView(const KsCheck &c, i32 n)
      : lo(0), bytes(0), valid(0), owner(0), reader(0), owner_clock(0), reader_clock(0), stamp(0), shift(0), kept_back(0), number(n), me(c.me), base(c.base) {
    if (n < 0) return;
    const KsSegment &s = c.segments[n];
    lo = (u64)s.lo; bytes = s.bytes; valid = s.valid; shift = s.shift; kept_back = s.kept_back;
    owner = s.owner; reader = s.reader; owner_clock = s.owner_clock; reader_clock = s.reader_clock; stamp = s.stamp;
  }
  // Whether `size` bytes from `p` lie inside of a view without gaps.
  KS_MEMBER bool inside(const char *p, u64 size) const { return bytes >= size && (u64)p - lo <= bytes - size && !valid; }
};

// Writes an entry per lane of the mask and no other: those behind it may be another thread's.
KS_INLINE void ks_mark(u32 *at, vi32 mask, u32 value) { ks_store_i32((char *)at, mask, (vi32)ks_splat<vu32>(value)); }

// Whether the lanes of a load may read addresses that follow each other, as far as is known without the monitor.
template <int SIZE> KS_INLINE bool ks_plain_load(const KsCheck &c, const KsView &s, const char *p, vi32 mask) {
  if (!s.inside(p, SIZE * KS_W)) return false;
  if (!s.owner) return true;
  if (SIZE != 1 << s.shift) return false;
  const u64 at = ((u64)p - s.lo) / SIZE;
  const vu32 owner = *(const wu32 *)(s.owner + at);
  if (ks_bits(mask & (owner != s.me) & (owner - 1 >= s.base - 1))) return false;
  if (s.reader) {
    const vu32 reader = *(const wu32 *)(s.reader + at);
    const vi32 first = mask & (reader < s.base);
    if (ks_bits(first)) {
      ks_mark(s.reader + at, first, s.me);
      if (s.reader_clock) ks_mark(s.reader_clock + at, first, c.clock);
    }
    const vi32 others = mask & ~first & (reader != s.me) & (reader != KS_MANY);
    if (!s.reader_clock && ks_bits(others)) ks_mark(s.reader + at, others, KS_MANY);
  }
  return true;
}
template <int SIZE, bool ALL> KS_INLINE bool ks_plain_store(const KsCheck &c, const KsView &s, const char *p, vi32 mask) {
  if (!s.inside(p, SIZE * KS_W) || !s.owner || s.kept_back || SIZE != 1 << s.shift) return false;
  const u64 at = ((u64)p - s.lo) / SIZE;
  const vu32 owner = *(const wu32 *)(s.owner + at);
  vi32 bad = (owner >= s.base) & (owner != s.me);
  if (!ALL) bad &= mask;
  if (s.stamp) bad |= mask & (owner == s.me) & (*(const wu32 *)(s.stamp + at) == c.serial);
  if (s.reader) {
    const vu32 reader = *(const wu32 *)(s.reader + at);
    bad |= mask & (reader >= s.base) & (reader != s.me);
  }
  if (ks_bits(bad)) return false;
  if (ALL) *(wu32 *)(s.owner + at) = ks_splat<vu32>(s.me);
  else ks_mark(s.owner + at, mask, s.me);
  if (s.stamp) ks_mark(s.stamp + at, mask, c.serial);
  if (s.owner_clock) ks_mark(s.owner_clock + at, mask, c.clock);
  return true;
}

// The same for a store to one place.
template <int SIZE> KS_INLINE bool ks_plain_write(const KsCheck &c, const KsView &s, const char *p) {
  if (!s.inside(p, SIZE) || !s.owner || s.kept_back || SIZE != 1 << s.shift) return false;
  const u64 at = ((u64)p - s.lo) / SIZE;
  const u32 owner = s.owner[at];
  if (owner >= s.base && (owner != s.me || (s.stamp && s.stamp[at] == c.serial))) return false;
  if (s.reader && s.reader[at] >= s.base && s.reader[at] != s.me) return false;
  s.owner[at] = s.me;
  if (s.stamp) s.stamp[at] = c.serial;
  if (s.owner_clock) s.owner_clock[at] = c.clock;
  return true;
}

// Loads and stores at addresses that follow each other: `all` does the access for every lane, `some` for those that may.
template <int SIZE, class All, class Some>
KS_INLINE auto ks_load_row(KsCheck &c, const KsView &s, i32 site, const char *p, i64 lane, i64 stride, All all, Some some) -> decltype(all()) {
  if (KS_LIKELY(ks_plain_load<SIZE>(c, s, p, ks_all()))) return all();
  return some(ks_ask<SIZE>(c, KS_LOAD, site, s.number, ks_ramp((i64)p, (i64)SIZE), ks_all(), ks_all(), lane, stride, KsNoValues()));
}
template <int SIZE, class Some>
KS_INLINE auto ks_load_row(KsCheck &c, const KsView &s, i32 site, const char *p, vi32 mask, i64 lane, i64 stride, Some some) -> decltype(some(mask)) {
  if (KS_LIKELY(ks_plain_load<SIZE>(c, s, p, mask))) return some(mask);
  return some(ks_ask<SIZE>(c, KS_LOAD, site, s.number, ks_ramp((i64)p, (i64)SIZE), mask, mask, lane, stride, KsNoValues()));
}
template <int SIZE, class Values, class All, class Some>
KS_INLINE void ks_store_row(KsCheck &c, const KsView &s, i32 site, const char *p, i64 lane, i64 stride, Values values, All all, Some some) {
  if (KS_LIKELY((ks_plain_store<SIZE, true>(c, s, p, ks_all())))) all();
  else some(ks_ask<SIZE>(c, KS_STORE, site, s.number, ks_ramp((i64)p, (i64)SIZE), ks_all(), ks_all(), lane, stride, values));
}
template <int SIZE, class Values, class Some>
KS_INLINE void ks_store_row(KsCheck &c, const KsView &s, i32 site, const char *p, vi32 mask, i64 lane, i64 stride, Values values, Some some) {
  if (KS_LIKELY((ks_plain_store<SIZE, false>(c, s, p, mask)))) some(mask);
  else some(ks_ask<SIZE>(c, KS_STORE, site, s.number, ks_ramp((i64)p, (i64)SIZE), mask, mask, lane, stride, values));
}

// Which lanes of a load or store may access any addresses.
template <int SIZE>
KS_INLINE vi32 ks_may_gather(KsCheck &c, const KsView &s, i32 kind, i32 site, vi64 address, vi32 mask, i64 lane, i64 stride) {
  if (KS_LIKELY(!s.owner && !s.valid && s.bytes >= SIZE)) {
    const vu64 at = (vu64)address - s.lo;
    if (KS_LIKELY(ks_bits(mask & ks_mask(at > s.bytes - SIZE)) == 0)) return mask;
  }
  return ks_ask<SIZE>(c, kind, site, s.number, address, mask, mask, lane, stride, KsNoValues());
}
template <int SIZE, class Values>
KS_INLINE vi32 ks_may_scatter(KsCheck &c, const KsView &s, i32 site, vi64 address, vi32 mask, i64 lane, i64 stride, Values values) {
  vi32 open = mask;
  KS_EACH_LANE if (mask[l] && ks_plain_write<SIZE>(c, s, (const char *)address[l])) open[l] = 0;
  if (KS_LIKELY(ks_bits(open) == 0)) return mask;
  return (mask & ~open) | ks_ask<SIZE>(c, KS_STORE, site, s.number, address, open, mask, lane, stride, values);
}

// One place.
template <int SIZE, class Values>
KS_COLD bool ks_ask_one(KsCheck &c, i32 kind, i32 site, i32 segment, const char *p, i64 lane, Values values) {
  char stored[8];
  KsAccess a;
  a.kind = kind; a.site = site; a.segment = segment; a.size = SIZE;
  a.lane = lane; a.lane_stride = 0; a.lanes = a.active = 1;
  a.address[0] = (i64)p;
  if (kind == KS_STORE) values(stored);
  a.values = stored;
  return c.context->examine(&c, &a) & 1;
}
template <int SIZE> KS_INLINE bool ks_may_read(KsCheck &c, const KsView &s, i32 kind, i32 site, const char *p, bool mask, i64 lane) {
  if (!mask) return false;
  if (KS_LIKELY(s.inside(p, SIZE))) {
    if (!s.owner) return true;
    if (kind == KS_LOAD && SIZE == 1 << s.shift) {
      const u64 at = ((u64)p - s.lo) / SIZE;
      const u32 owner = s.owner[at];
      if ((owner == s.me || (owner && owner < s.base)) && (!s.reader || s.reader[at] == s.me)) return true;
    }
  }
  return ks_ask_one<SIZE>(c, kind, site, s.number, p, lane, KsNoValues());
}
template <int SIZE, class Values>
KS_INLINE bool ks_may_write(KsCheck &c, const KsView &s, i32 site, char *p, bool mask, i64 lane, Values values) {
  return mask && (ks_plain_write<SIZE>(c, s, p) || ks_ask_one<SIZE>(c, KS_STORE, site, s.number, p, lane, values));
}
template <int SIZE> KS_INLINE bool ks_may_update(KsCheck &c, const KsView &s, i32 site, char *p, bool mask, i64 lane, i32 order) {
  if (!mask || !ks_ask_one<SIZE>(c, KS_ATOMIC, site, s.number, p, lane, KsNoValues())) return false;
  if (order & KS_RELEASE) c.context->release(&c, (i64)p);
  __builtin_memcpy(c.before, p, SIZE);
  return true;
}
template <int SIZE> KS_INLINE void ks_updated(KsCheck &c, char *p, i32 order) {
  if (__builtin_memcmp(c.before, p, SIZE)) c.context->moved(&c);
  if (order & KS_ACQUIRE) c.context->acquire(&c, (i64)p);
}

// What masked-off lanes of a load without `other` hold, for the type with this number.
KS_INLINE const char *ks_pattern(KsCheck &c, i32 site, i32 element) { return c.context->patterns[site] + 128 * element; }
KS_INLINE const char *ks_masked(KsCheck &c, i32 site, i32 element) { c.context->masked[site] = 1; return ks_pattern(c, site, element); }
KS_INLINE void ks_note(KsCheck &c, i32 site, vi32 mask) { if (ks_bits(~mask)) c.context->masked[site] = 1; }

// Where the exact offset differs from the computed one.
KS_COLD void ks_wrapped(KsCheck &c, i32 site, vi64 exact, vi64 computed, vi32 mask, i64 lane, i64 stride) {
  for (int l = 0; l < KS_W; ++l)
    if (mask[l] && exact[l] != computed[l]) c.context->report(&c, KS_WRAP, site, lane < 0 ? -1 : lane + stride * l, exact[l], computed[l]);
}
KS_INLINE void ks_same_offsets(KsCheck &c, i32 site, vi64 exact, vi64 computed, vi32 mask, i64 lane, i64 stride) {
  if (!ks_none(mask & ks_mask(exact != computed))) ks_wrapped(c, site, exact, computed, mask, lane, stride);
}
KS_COLD void ks_wrapped_one(KsCheck &c, i32 site, i64 exact, i64 computed, i64 lane) { c.context->report(&c, KS_WRAP, site, lane, exact, computed); }
// Where an index of tl.gather leaves its axis.
KS_COLD void ks_missed(KsCheck &c, i32 site, vi64 index, i64 size, i64 lane, i64 stride) {
  for (int l = 0; l < KS_W; ++l)
    if ((u64)index[l] >= (u64)size) c.context->report(&c, KS_BOUNDS, site, lane < 0 ? -1 : lane + stride * l, index[l], size);
}
KS_INLINE void ks_picks(KsCheck &c, i32 site, vi64 index, i64 size, i64 lane, i64 stride) {
  if (!ks_none(ks_mask((vu64)index >= (u64)size))) ks_missed(c, site, index, size, lane, stride);
}
KS_COLD void ks_missed_one(KsCheck &c, i32 site, i64 index, i64 size, i64 lane) { c.context->report(&c, KS_BOUNDS, site, lane, index, size); }
template <class T> KS_INLINE T ks_divisor(KsCheck &c, i32 site, T b) {
  if (b == 0) c.context->report(&c, KS_DIVISION, site, -1, 0, 0);
  return b;
}
KS_INLINE bool ks_goes_on(KsCheck &c, i32 site) {
  return KS_LIKELY(++c.spins & 255) || !c.context->spin(&c, site);
}
template <int ORDER, class Bits> KS_INLINE bool ks_poll(KsCheck &c, i32 site, const char *p, Bits wanted, u64 deadline) {
  for (u32 rounds = 0; __atomic_load_n((const Bits *)p, ORDER) != wanted; ks_wait(&rounds))
    if ((deadline != ~0ul && ks_now() >= deadline) || !ks_goes_on(c, site)) return false;
  return true;
}
