"""Kernels that the code generator's tests run: one construct each, or one operator that models use."""

# ruff: noqa: SIM108, RUF059, B007 - kernels are written the way the field writes them

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def unary(x_ptr, o_ptr, n, B: tl.constexpr, OP: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + o, mask=o < n)
    if OP == 0:
        y = tl.exp(x)
    elif OP == 1:
        y = tl.log(x)
    elif OP == 2:
        y = tl.sqrt(x)
    elif OP == 3:
        y = tl.abs(x)
    elif OP == 4:
        y = -x
    elif OP == 5:
        y = tl.sigmoid(x)
    elif OP == 6:
        y = tl.floor(x)
    elif OP == 7:
        y = tl.ceil(x)
    elif OP == 8:
        y = tl.exp2(x)
    elif OP == 9:
        y = tl.log2(x)
    elif OP == 10:
        y = tl.sin(x)
    elif OP == 11:
        y = tl.erf(x)
    elif OP == 12:
        y = tl.rsqrt(x)
    elif OP == 13:
        y = x / 3.0
    elif OP == 14:
        y = x * 1.1 + 0.3
    elif OP == 15:
        y = libdevice.tanh(x.to(tl.float32)).to(x.dtype)
    elif OP == 16:
        y = libdevice.rint(x.to(tl.float32)).to(x.dtype)
    tl.store(o_ptr + o, y, mask=o < n)


@triton.jit
def binary(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr, OP: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    m = o < n
    x = tl.load(x_ptr + o, mask=m)
    y = tl.load(y_ptr + o, mask=m)
    if OP == 0:
        z = x + y
    elif OP == 1:
        z = x - y
    elif OP == 2:
        z = x * y
    elif OP == 3:
        z = tl.maximum(x, y)
    elif OP == 4:
        z = tl.minimum(x, y)
    elif OP == 5:
        z = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == 6:
        z = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == 7:
        z = x / y
    elif OP == 8:
        z = x // y
    elif OP == 9:
        z = x % y
    elif OP == 10:
        z = x & y
    elif OP == 11:
        z = x | y
    elif OP == 12:
        z = x ^ y
    elif OP == 13:
        z = x << (y & 7)
    elif OP == 14:
        z = x >> (y & 7)
    elif OP == 15:
        z = x < y
    elif OP == 16:
        z = x <= y
    elif OP == 17:
        z = x == y
    elif OP == 18:
        z = x != y
    elif OP == 19:
        z = x > y
    elif OP == 20:
        z = x >= y
    elif OP == 21:
        z = tl.where(x > y, x, y)
    elif OP == 22:
        z = tl.fma(x, y, x)
    tl.store(o_ptr + o, z, mask=m)


@triton.jit
def cast(x_ptr, o_ptr, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + o, mask=o < n)
    tl.store(o_ptr + o, x.to(o_ptr.dtype.element_ty), mask=o < n)


@triton.jit
def red2(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, AX: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, BM)
    j = tl.arange(0, BN)
    m = (i[:, None] < M) & (j[None, :] < N)
    p = x_ptr + i[:, None] * N + j[None, :]
    if OP == 0:
        r = tl.sum(tl.load(p, mask=m, other=0), AX)
    elif OP == 1:
        r = tl.max(tl.load(p, mask=m, other=-1000), AX)
    elif OP == 2:
        r = tl.min(tl.load(p, mask=m, other=1000), AX)
    elif OP == 3:
        r = tl.argmax(tl.load(p, mask=m, other=-1000), AX)
    elif OP == 4:
        r = tl.argmin(tl.load(p, mask=m, other=1000), AX)
    elif OP == 5:
        r = tl.xor_sum(tl.load(p, mask=m, other=0), AX)
    if AX == 1:
        tl.store(o_ptr + i, r, mask=i < M)
    else:
        tl.store(o_ptr + j, r, mask=j < N)


@triton.jit
def scan2(x_ptr, o_ptr, BM: tl.constexpr, BN: tl.constexpr, AX: tl.constexpr, REV: tl.constexpr, OP: tl.constexpr):
    p = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    x = tl.load(x_ptr + p)
    if OP == 0:
        y = tl.cumsum(x, AX, reverse=REV)
    else:
        y = tl.cumprod(x, AX, reverse=REV)
    tl.store(o_ptr + p, y)


@triton.jit
def welford_c(m1, s1, w1, m2, s2, w2):
    d = m2 - m1
    w = w1 + w2
    r = tl.where(w == 0, 0.0, w2 / w)
    return m1 + d * r, s1 + s2 + d * d * w1 * r, w


@triton.jit
def welford(x_ptr, o_ptr, N, BM: tl.constexpr, BN: tl.constexpr, AX: tl.constexpr):
    p = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    x = tl.load(x_ptr + p)
    m, s, w = tl.reduce((x, tl.zeros_like(x), tl.full(x.shape, 1.0, tl.float32)), AX, welford_c)
    if AX == 1:
        tl.store(o_ptr + tl.arange(0, BM), s / w)
    else:
        tl.store(o_ptr + tl.arange(0, BN), s / w)


@triton.jit
def transpose(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :], mask=(i[:, None] < M) & (j[None, :] < N))
    tl.store(o_ptr + j[:, None] * M + i[None, :], tl.trans(x), mask=(j[:, None] < N) & (i[None, :] < M))


@triton.jit
def flip_inplace(x_ptr, o_ptr, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x_ptr + (B - 1 - o))
    tl.store(o_ptr + o, v)


@triton.jit
def rope(q_ptr, c_ptr, s_ptr, stride, D: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, D // 2)
    p = q_ptr + row * stride
    a = tl.load(p + o)
    b = tl.load(p + D // 2 + o)
    c = tl.load(c_ptr + row * (D // 2) + o)
    s = tl.load(s_ptr + row * (D // 2) + o)
    tl.store(p + o, a * c - b * s)
    tl.store(p + D // 2 + o, b * c + a * s)


@triton.jit
def cross_entropy(x_ptr, t_ptr, loss_ptr, n, B: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * n
    y = tl.load(t_ptr + row)
    if y == -100:
        tl.store(loss_ptr + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    for i in range(0, n, B):
        o = i + tl.arange(0, B)
        x = tl.load(x_ptr + o, mask=o < n, other=float("-inf")).to(tl.float32)
        bm = tl.max(x)
        mn = tl.maximum(m, bm)
        d = d * tl.exp(m - mn) + tl.sum(tl.exp(x - mn))
        m = mn
    tl.store(loss_ptr + row, m + tl.log(d) - tl.load(x_ptr + y).to(tl.float32))


@triton.jit
def topk(x_ptr, v_ptr, i_ptr, n, K: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    x = tl.load(x_ptr + row * n + o, mask=o < n, other=float("-inf"))
    for k in range(K):
        v, i = tl.max(x, 0, return_indices=True)
        tl.store(v_ptr + row * K + k, v)
        tl.store(i_ptr + row * K + k, i.to(tl.int64))
        x = tl.where(o == i, float("-inf"), x)


@triton.jit
def embedding(idx_ptr, w_ptr, o_ptr, n, D, BM: tl.constexpr, BD: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    idx = tl.load(idx_ptr + i, mask=i < n, other=0)
    m = (i[:, None] < n) & (d[None, :] < D)
    tl.store(o_ptr + i[:, None] * D + d[None, :], tl.load(w_ptr + idx[:, None] * D + d[None, :], mask=m), mask=m)


@triton.jit
def quant(x_ptr, q_ptr, s_ptr, n, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    x = tl.load(x_ptr + row * n + o, mask=o < n, other=0.0)
    s = tl.max(tl.abs(x)) / 127.0
    q = libdevice.rint(x / s)
    tl.store(q_ptr + row * n + o, q.to(tl.int8), mask=o < n)
    tl.store(s_ptr + row, s)


@triton.jit
def add_rms(x_ptr, r_ptr, w_ptr, o_ptr, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    m = o < n
    x = tl.load(x_ptr + row * n + o, mask=m, other=0.0).to(tl.float32)
    r = tl.load(r_ptr + row * n + o, mask=m, other=0.0).to(tl.float32)
    h = x + r
    tl.store(r_ptr + row * n + o, h, mask=m)
    w = tl.load(w_ptr + o, mask=m).to(tl.float32)
    tl.store(o_ptr + row * n + o, h * tl.rsqrt(tl.sum(h * h) / n + eps) * w, mask=m)


@triton.jit
def gemm_gelu(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr
):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    g = GM * nn
    gid = pid // g
    first = gid * GM
    gs = min(nm - first, GM)
    pm = first + (pid % g) % gs
    pn = (pid % g) // gs
    i = pm * BM + tl.arange(0, BM)
    j = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + i[:, None] * K + kk[None, :], mask=(i[:, None] < M) & (kk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + kk[:, None] * N + j[None, :], mask=(kk[:, None] < K) & (j[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    acc += tl.load(bias_ptr + j, mask=j < N)[None, :]
    y = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    tl.store(
        c_ptr + i[:, None] * N + j[None, :], y.to(c_ptr.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N)
    )


@triton.jit
def block_ptr_copy(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    q = tl.make_block_ptr(o_ptr, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(q, tl.load(p, boundary_check=(0, 1)) * 2, boundary_check=(0, 1))
        p = tl.advance(p, (0, BN))
        q = tl.advance(q, (0, BN))


@triton.jit
def int8_mm(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + j[None, :])
    tl.store(c_ptr + i[:, None] * N + j[None, :], tl.dot(a, b))


@triton.jit
def rand4(o_ptr, seed, B: tl.constexpr):
    o = tl.arange(0, B)
    a, b, c, d = tl.randint4x(seed, o)
    tl.store(o_ptr + o, a)
    tl.store(o_ptr + B + o, b)
    tl.store(o_ptr + 2 * B + o, c)
    tl.store(o_ptr + 3 * B + o, d)
    tl.store(o_ptr.to(tl.pointer_type(tl.float32)) + 4 * B + o, tl.randn(seed, o))


@triton.jit
def fib(o_ptr, n, B: tl.constexpr):
    a = 0
    b = 1
    va = tl.zeros([B], tl.int32)
    vb = va + 1
    for i in range(n):
        a, b = b, a + b
        va, vb = vb, va + vb
    tl.store(o_ptr + tl.arange(0, B), va + a)


@triton.jit
def hist(x_ptr, o_ptr, n, B: tl.constexpr, NB: tl.constexpr):
    o = tl.arange(0, B)
    x = tl.load(x_ptr + o, mask=o < n, other=0)
    h = tl.histogram(x, NB, mask=o < n)
    tl.atomic_add(o_ptr + tl.arange(0, NB), h)


@triton.jit
def sort2(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, DESC: tl.constexpr):
    p = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o_ptr + p, tl.sort(tl.load(x_ptr + p), descending=DESC))


@triton.jit
def interleave(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(o_ptr + tl.arange(0, 2 * B), tl.interleave(tl.load(x_ptr + o), tl.load(y_ptr + o)))


@triton.jit
def reshape_sum(x_ptr, o_ptr, B: tl.constexpr, G: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    y = tl.reshape(x, (B // G, G))
    tl.store(o_ptr + tl.arange(0, B // G), tl.sum(y, 1))
    z = tl.reshape(x, (G, B // G))
    tl.store(o_ptr + B // G + tl.arange(0, B // G), tl.max(z, 0))


@triton.jit
def anyall(x_ptr, o_ptr, n, B: tl.constexpr):
    o = tl.arange(0, B)
    x = tl.load(x_ptr + o, mask=o < n, other=0)
    a = tl.max((x > 3).to(tl.int32), 0)
    b = tl.reduce_or(x > 3, 0)
    tl.store(o_ptr, a)
    tl.store(o_ptr + 1, b.to(tl.int32))


@triton.jit
def atom(p_ptr, v_ptr, o_ptr, B: tl.constexpr, OP: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(v_ptr + o)
    if OP == 0:
        r = tl.atomic_add(p_ptr + o // 4, v)
    elif OP == 1:
        r = tl.atomic_max(p_ptr + o // 4, v)
    elif OP == 2:
        r = tl.atomic_min(p_ptr + o // 4, v)
    elif OP == 3:
        r = tl.atomic_xchg(p_ptr + o // 4, v)
    elif OP == 4:
        r = tl.atomic_and(p_ptr + o // 4, v)
    elif OP == 5:
        r = tl.atomic_or(p_ptr + o // 4, v)
    elif OP == 6:
        r = tl.atomic_xor(p_ptr + o // 4, v)
    elif OP == 7:
        r = tl.atomic_cas(p_ptr + o // 4, v, v + 1)
    tl.store(o_ptr + o, r)


@triton.jit
def persistent(x_ptr, o_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    for b in range(pid, tl.cdiv(n, B), tl.num_programs(0)):
        o = b * B + tl.arange(0, B)
        tl.store(o_ptr + o, tl.load(x_ptr + o, mask=o < n) + 1, mask=o < n)


@triton.jit
def conv_index(x_ptr, o_ptr, H, W, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    m = o < n
    h = o // W
    w = o % W
    ok = m & (w + 1 < W) & (h + 1 < H)
    a = tl.load(x_ptr + h * W + w, mask=m, other=0.0)
    b = tl.load(x_ptr + (h + 1) * W + w + 1, mask=ok, other=0.0)
    tl.store(o_ptr + o, a + b, mask=m)


@triton.jit
def softmax(out_ptr, in_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(in_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    num = tl.exp(x)
    tl.store(out_ptr + row * stride + cols, num / tl.sum(num, axis=0), mask=cols < n_cols)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    pm = pid // tl.cdiv(N, BN)
    pn = pid % tl.cdiv(N, BN)
    k = tl.arange(0, BK)
    a = a_ptr + ((pm * BM + tl.arange(0, BM)) % M)[:, None] * sam + k[None, :] * sak
    b = b_ptr + k[:, None] * sbk + ((pn * BN + tl.arange(0, BN)) % N)[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a, mask=k[None, :] < K - start, other=0.0)
        y = tl.load(b, mask=k[:, None] < K - start, other=0.0)
        acc = tl.dot(x, y, acc)
        a += BK * sak
        b += BK * sbk
    i = pm * BM + tl.arange(0, BM)
    j = pn * BN + tl.arange(0, BN)
    inside = (i[:, None] < M) & (j[None, :] < N)
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, L, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start = tl.program_id(0)
    base = tl.program_id(1) * L * D
    i = start * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + i[:, None] * D + d[None, :], mask=i[:, None] < L, other=0.0)
    m = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, (start + 1) * BM, BN):
        j = n + tl.arange(0, BN)
        k = tl.load(k_ptr + base + j[:, None] * D + d[None, :], mask=j[:, None] < L, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((j[None, :] < L) & (i[:, None] >= j[None, :]), s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + base + j[:, None] * D + d[None, :], mask=j[:, None] < L, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    tl.store(o_ptr + base + i[:, None] * D + d[None, :], acc / total[:, None], mask=i[:, None] < L)


@triton.jit
def early_return(x_ptr, o_ptr, lens_ptr, n, B: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lens_ptr + row)
    if length == 0:
        return
    c = tl.arange(0, B)
    if length > 100:
        y = tl.load(x_ptr + c, mask=c < length) * 2.0
    else:
        y = tl.load(x_ptr + c, mask=c < length) + 1.0
    i = 0
    while i < length:
        y += 1.0
        i += 7
    tl.store(o_ptr + row * n + c, y, mask=c < length)


@triton.jit
def shifted_rows(x_ptr, n, B: tl.constexpr):
    """Reads one element ahead of what it writes, through one argument."""
    o = tl.arange(0, B)
    a = tl.load(x_ptr + o + 1, mask=o + 1 < n, other=0.0)
    b = tl.load(x_ptr + o, mask=o < n)
    tl.store(x_ptr + o, a + b, mask=o < n)
    tl.store(x_ptr + o, a - b, mask=o == 0)


@triton.jit
def wrapping_offset(o_ptr, big, B: tl.constexpr):
    """int32 arithmetic wraps; int64 does not."""
    o = tl.arange(0, B)
    tl.store(o_ptr + o, (o * big).to(tl.int64))
    tl.store(o_ptr + B + o, o.to(tl.int64) * big)


@triton.jit
def nested_loops(o_ptr, n, m, B: tl.constexpr):
    p = o_ptr + tl.arange(0, B)
    for i in range(n):
        acc = tl.zeros([B], tl.float32)
        for j in range(m):
            if (i + j) % 2 == 0:
                acc += i * 10 + j
        tl.store(p, acc)
        p += B


@triton.jit
def padded_sums(x_ptr, o_ptr, n, m, B: tl.constexpr):
    """What lies past the masks counts too: it is the same everywhere, or depends on the index."""
    o = tl.arange(0, B)
    x = tl.load(x_ptr + o, mask=o < n, other=2.5)
    y = tl.load(x_ptr + o, mask=o < m, other=-1.0)
    tl.store(o_ptr, tl.sum(x))
    tl.store(o_ptr + 1, tl.sum(tl.where(o < n, x * x, o.to(tl.float32))))
    tl.store(o_ptr + 2, tl.max(tl.where((o < n) & (o < m), x, 7.0)))
    tl.store(o_ptr + 3, tl.sum(x * y + 1.0))
    tl.store(o_ptr + 4, tl.min(y))
    tl.store(o_ptr + 5, tl.sum(tl.load(x_ptr + (B - 1 - o), mask=B - 1 - o < n, other=0.5)))


@triton.jit
def shift(x_ptr, o_ptr, by, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(o_ptr + o, tl.load(x_ptr + o + by, mask=o < n) * 2.0, mask=o < n)
