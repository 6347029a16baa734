// Reductions over an axis of a 2-D tensor.
#include "reduce.h"

namespace tw {

void reduce_pattern(const char* api, Red red, DT dt, const Loc& dst, const Loc& src, const Loc* tmp, uint32_t first,
                    uint32_t last, bool last_axis, bool reuse, bool pad) {
    Core& c = core();
    uint32_t es = dt_size(dt), arch = chip().arch;
    if (arch == 2201 && !pad) {
        fail("padding", "%s: srcInnerPad must be true on this chip", api);
    }
    c.counter_mode = false;
    c.mask[0] = c.mask[1] = ~0ull;
    if (first == 0 || last == 0) {
        return;
    }
    auto p2 = [](uint32_t n) { return 1u << (31 - __builtin_clz(n)); };
    auto up = [](uint64_t n, uint64_t to) { return (n + to - 1) / to * to; };
    uint64_t need = 0, e = 32 / es, rr = 256 / es;
    if (!reuse) {
        if (last_axis && red == Red::Sum) {
            uint32_t k = p2(last);
            k = k == last && first > 1 ? k / 2 : k;
            need = last <= 64 ? 0 : static_cast<uint64_t>(first) * k * 4;
        } else if (last_axis) {
            need = last <= e ? 0 : last < rr ? first * 32ull : first * 256ull;
        } else {
            uint32_t k = p2(first);
            k = k == first && first > 1 ? k / 2 : k;
            need = red == Red::Sum ? k * up(last, 8) * 4 : k * up(static_cast<uint64_t>(last) * es, 32);
        }
    }
    if (tmp != nullptr ? need > tmp->bytes : need > chip().ub_total - c.ub_used) {
        fail("tmp-size", "%s needs %llu bytes of temporary buffer, there are %u", api, static_cast<unsigned long long>(need),
             tmp != nullptr ? tmp->bytes : chip().ub_total - c.ub_used);
    }
    uint64_t row = pad ? up(static_cast<uint64_t>(last) * es, 32) : static_cast<uint64_t>(last) * es;
    uint64_t in_bytes = (first - 1) * row + static_cast<uint64_t>(last) * es;
    uint64_t out_bytes = static_cast<uint64_t>(last_axis ? first : last) * es;
    uint32_t from = c.resolve(api, "srcTensor", src, in_bytes, 32), to = c.resolve(api, "dstTensor", dst, out_bytes, 32);
    uint32_t work = tmp != nullptr && need > 0 ? c.resolve(api, "sharedTmpBuffer", *tmp, need, 32) : 0;
    auto apart = [&](uint64_t a, uint64_t an, uint64_t b, uint64_t bn) {
        if (a < b + bn && b < a + an) {
            fail("overlap", "%s: source, destination and temporary buffer may not overlap", api);
        }
    };
    apart(from, in_bytes, to, out_bytes);
    if (work != 0 || (tmp != nullptr && need > 0)) {
        apart(from, in_bytes, work, need);
        apart(to, out_bytes, work, need);
    }
    c.issue(PV, api);
    c.check_read(PV, from, in_bytes, api);
    c.check_write(PV, to, out_bytes, api);
    if (reuse) {
        c.check_write(PV, from, in_bytes, api);
    }
    if (tmp != nullptr && need > 0) {
        c.check_write(PV, work, need, api);
    }
    // Binary folding along the reduced axis: the part beyond the greatest power of two first, then halves.
    uint32_t outer = last_axis ? first : last, inner = last_axis ? last : first;
    uint64_t step = last_axis ? es : row, pitch = last_axis ? row : es;
    std::vector<Value> v(inner), results(outer);
    for (uint32_t o = 0; o < outer; ++o) {
        for (uint32_t i = 0; i < inner; ++i) {
            uint32_t at = from + static_cast<uint32_t>(o * pitch + i * step);
            v[i] = load(dt, c.ub + at);
            v[i].tainted = c.tainted_elem(at, es);
        }
        uint32_t n = inner, k = p2(inner);
        while (n > 1) {
            k = k == n ? k / 2 : k;
            for (uint32_t i = 0; i + k < n; ++i) {
                v[i] = merge(dt, red, v[i], v[i + k]);
            }
            n = k;
        }
        if (v[0].tainted) {
            fail("uninitialised", "%s reads UB lanes that were never written or come from padding", api);
        }
        results[o] = v[0];
    }
    for (uint32_t o = 0; o < outer; ++o) {
        put(c, dt, to + o * es, results[o]);
    }
    if (reuse) {
        c.set_taint(from, in_bytes, true);
        c.stamp_write(PV, from, in_bytes);
    }
    if (tmp != nullptr && need > 0) {
        c.set_taint(work, need, true);
        c.stamp_write(PV, work, need);
    }
    c.stamp_read(PV, from, in_bytes);
    c.stamp_write(PV, to, out_bytes);
    c.n.elements += static_cast<uint64_t>(first) * last;
    c.n.repeats += (in_bytes + 255) / 256;
}

}  // namespace tw
