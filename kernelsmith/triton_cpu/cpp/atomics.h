// Atomic updates, waiting for other program instances, and what printing needs of the C library.

// ---- atomics ----

template <int ORDER, class Bits, class Next> KS_INLINE Bits ks_atomic(char *p, Next next) {
  Bits *q = (Bits *)p, old = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &old, (Bits)next(old), false, ORDER, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <int ORDER, int FAILURE, class Bits> KS_INLINE Bits ks_swap_if(char *p, Bits expected, Bits wanted) {
  __atomic_compare_exchange_n((Bits *)p, &expected, wanted, false, ORDER, FAILURE);
  return expected;
}

// KS_W neighbours at p become what `next` makes of them: 16 bytes at a time, or one by one where p is not aligned or some
// are masked off. Bits is the integer of an element's size.
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
template <class Bits, class Next> KS_INLINE void ks_update(char *p, vi32 mask, Next next) {
  alignas(64) Bits old[KS_W], now[KS_W];
  for (int l = 0; l < KS_W; ++l) {
    if (!mask[l]) continue;
    Bits *q = (Bits *)p + l;
    old[l] = __atomic_load_n(q, __ATOMIC_RELAXED);
    do next((const char *)old, (char *)now);
    while (!__atomic_compare_exchange_n(q, &old[l], now[l], false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  }
}
template <class Bits, class Next> KS_INLINE void ks_update(char *p, Next next) {
  typedef __int128 part __attribute__((may_alias));
  if ((u64)p & 15) return ks_update<Bits>(p, ks_splat<vi32>(-1), next);
  alignas(64) char old[sizeof(Bits) * KS_W], now[sizeof(Bits) * KS_W];
  __builtin_memcpy(old, p, sizeof old);
  next((const char *)old, (char *)now);
  for (u64 n = 0; n < sizeof old; n += 16) {
    for (;;) {
      part expected = *(part *)(old + n), found = __sync_val_compare_and_swap((part *)(p + n), expected, *(part *)(now + n));
      if (found == expected) break;
      *(part *)(old + n) = found;
      next((const char *)old, (char *)now);
    }
  }
}
#endif

// The pool's: called now and then by a program instance that waits for another one.
extern "C" __attribute__((weak)) void kernelsmith_stalled();
KS_INLINE void ks_wait(u32 *rounds) {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
  if ((++*rounds & 255) == 0 && kernelsmith_stalled) kernelsmith_stalled();
}
KS_INLINE void ks_pause() {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
  if (kernelsmith_stalled) kernelsmith_stalled();
}
extern "C" int clock_gettime(int, i64 *);
KS_INLINE u64 ks_now() {
  i64 t[2];
  clock_gettime(1, t);  // CLOCK_MONOTONIC
  return (u64)t[0] * 1000000000 + (u64)t[1];
}
template <int ORDER, class Bits> KS_INLINE bool ks_poll(const char *p, Bits wanted, u64 deadline) {
  for (u32 rounds = 0; __atomic_load_n((const Bits *)p, ORDER) != wanted; ks_wait(&rounds))
    if (deadline != ~0ul && ks_now() >= deadline) return false;
  return true;
}

// ---- messages ----

extern "C" int printf(const char *, ...);
extern "C" int fflush(void *);
extern "C" void *stdout;
