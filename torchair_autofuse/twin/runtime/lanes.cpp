// Lanes of mask/repeat and count forms: resolution, walking, overlap, taint.
#include "lanes.h"

#include <bitset>

namespace tw {

bool Lanes::contiguous_mask() const {
    auto lead = [](const uint64_t* m) {
        bool low = (m[0] & (m[0] + 1)) == 0, high = (m[1] & (m[1] + 1)) == 0;
        return low && high && (m[1] == 0 || m[0] == ~0ull);
    };
    return lead(full) && lead(last);
}

int64_t Lanes::active() const {
    if (flat) {
        return n;
    }
    auto bits = [](const uint64_t* m) {
        return static_cast<int64_t>(std::bitset<64>(m[0]).count() + std::bitset<64>(m[1]).count());
    };
    return (reps - 1) * bits(full) + bits(last);
}

Lanes resolve_form(Core& c, const char* api, const Form& f, uint32_t esize, uint32_t lanes_override) {
    Lanes l;
    l.lanes = lanes_override != 0 ? lanes_override : 256 / esize;
    if (f.kind == Form::COUNT) {
        if (f.count < 0 || f.count > kUbBytes) {
            fail("count", "%s: count %lld", api, static_cast<long long>(f.count));
        }
        l.n = f.count;
        l.none = f.count == 0;
        c.counter_mode = false;  // the count forms set and clear the mask state
        c.mask[0] = c.mask[1] = ~0ull;
        return l;
    }
    l.flat = false;
    if (f.repeat < 0 || f.repeat > 255) {
        fail("repeat", "%s: repeatTime %d is not in 0..255", api, f.repeat);
    }
    int64_t total = -1;
    uint64_t bits[2] = {0, 0};
    if (f.kind == Form::CONT) {
        if (c.counter_mode) {
            total = f.count;
            c.mask[0] = static_cast<uint64_t>(f.count);
            c.mask[1] = 0;
        } else {
            if (f.count < 0 || f.count > l.lanes) {
                fail("mask", "%s: mask %lld, a repeat has %u lanes", api, static_cast<long long>(f.count), l.lanes);
            }
            bits[0] = leading(f.count);
            bits[1] = leading(f.count - 64);
            c.mask[0] = bits[0];
            c.mask[1] = bits[1];
        }
    } else if (f.kind == Form::BITS) {
        if (c.counter_mode) {
            fail("mask", "%s: a bit mask in counter mode", api);
        }
        bits[0] = f.bits[0];
        bits[1] = f.bits[1];
        if ((l.lanes <= 64 && bits[1] != 0) || (l.lanes < 64 && (bits[0] >> l.lanes) != 0)) {
            fail("mask", "%s: mask bits beyond the %u lanes of a repeat", api, l.lanes);
        }
        c.mask[0] = bits[0];
        c.mask[1] = bits[1];
    } else if (c.counter_mode) {
        total = static_cast<int64_t>(c.mask[0]);
    } else {
        bits[0] = c.mask[0] & leading(l.lanes);
        bits[1] = c.mask[1] & leading(static_cast<int64_t>(l.lanes) - 64);
    }
    if (total >= 0) {  // counter mode: the repeats follow from the element count
        if (total > kUbBytes) {
            fail("mask", "%s: %lld elements in counter mode", api, static_cast<long long>(total));
        }
        l.reps = (total + l.lanes - 1) / l.lanes;
        int64_t rest = total - (l.reps - 1) * l.lanes;
        l.full[0] = leading(l.lanes);
        l.full[1] = leading(static_cast<int64_t>(l.lanes) - 64);
        l.last[0] = leading(rest);
        l.last[1] = leading(rest - 64);
        l.none = total == 0;
        return l;
    }
    l.reps = f.repeat;
    if (bits[0] == 0 && bits[1] == 0 && chip().arch == 2002) {
        fail("mask", "%s: an empty mask is not allowed on this chip", api);
    }
    l.none = f.repeat == 0 || (bits[0] == 0 && bits[1] == 0);
    for (int i = 0; i < 2; ++i) {
        l.full[i] = l.last[i] = bits[i];
    }
    return l;
}

uint32_t spread(const uint64_t* lanes, uint32_t first, uint32_t count, uint32_t esize) {
    uint32_t out = 0;
    uint32_t unit = esize >= 32 ? kFull : (1u << esize) - 1;
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t lane = first + i;
        if (lanes[lane >> 6] >> (lane & 63) & 1) {
            out |= unit << (i * esize);
        }
    }
    return out;
}

View make_view(Core& c, const char* api, const char* what, const Opd& o, const Lanes& l, bool write, bool zero_rep) {
    View v{};
    v.esize = dt_size(o.dt);
    v.blk = o.blk;
    v.rep = o.rep;
    uint64_t extent = 0;
    if (l.flat) {
        extent = static_cast<uint64_t>(l.n) * v.esize;
    } else {
        uint32_t per = 32 / v.esize;
        v.blocks = (l.lanes + per - 1) / per;
        int top = -1, top_last = -1;
        for (uint32_t j = 0; j < v.blocks; ++j) {
            v.bytes_full[j] = spread(l.full, j * per, per, v.esize);
            v.bytes_last[j] = spread(l.last, j * per, per, v.esize);
            top = v.bytes_full[j] != 0 ? static_cast<int>(j) : top;
            top_last = v.bytes_last[j] != 0 ? static_cast<int>(j) : top_last;
        }
        auto end = [&](int64_t r, int j, const uint32_t* m) -> uint64_t {
            if (j < 0) {
                return 0;
            }
            uint64_t at = (static_cast<uint64_t>(r) * v.rep + static_cast<uint64_t>(j) * v.blk) * 32;
            return at + 32 - static_cast<uint64_t>(__builtin_clz(m[j]));
        };
        extent = end(l.reps - 1, top_last, v.bytes_last);
        for (int j = 0; j <= top && l.reps > 1; ++j) {
            if (v.bytes_full[j] != 0) {
                uint64_t e = end(l.reps - 2, j, v.bytes_full);
                extent = e > extent ? e : extent;
            }
        }
        if (write && v.blk == 0 && (top > 0 || top_last > 0)) {
            fail("stride", "%s: dstBlkStride 0 is undefined", api);
        }
        if (write && l.reps > 1 && v.rep == 0 && !zero_rep) {
            fail("stride", "%s: dstRepStride 0 with %lld repeats", api, static_cast<long long>(l.reps));
        }
        if (write && l.reps > 1 && v.rep != 0 && v.blk != 0 && v.rep < (top + 1u) * v.blk && v.rep % v.blk == 0) {
            fail("stride", "%s: dstRepStride %u lets repeats of %d blocks overwrite each other", api, v.rep, top + 1);
        }
    }
    v.off = c.resolve(api, what, o.loc, extent, 32);
    return v;
}

void check_operand(Core& c, const char* api, const View& v, const Lanes& l, bool write) {
    if (l.flat) {
        uint64_t bytes = static_cast<uint64_t>(l.n) * v.esize;
        write ? c.check_write(PV, v.off, bytes, api) : c.check_read(PV, v.off, bytes, api);
        return;
    }
    if (c.quiet(PV)) {
        return;
    }
    if (write) {
        for_blocks(v, l, [&](uint32_t b, uint32_t m, int64_t, uint32_t) { c.check_write_block(PV, b, m, api); });
    } else {
        for_blocks(v, l, [&](uint32_t b, uint32_t m, int64_t, uint32_t) { c.check_read_block(PV, b, m, api); });
    }
}

void stamp_operand(Core& c, const View& v, const Lanes& l, bool write) {
    if (l.flat) {
        uint64_t bytes = static_cast<uint64_t>(l.n) * v.esize;
        write ? c.stamp_write(PV, v.off, bytes) : c.stamp_read(PV, v.off, bytes);
    } else if (write) {
        for_blocks(v, l, [&](uint32_t b, uint32_t m, int64_t, uint32_t) { c.stamp_write_block(PV, b, m); });
    } else {
        for_blocks(v, l, [&](uint32_t b, uint32_t m, int64_t, uint32_t) { c.stamp_read_block(PV, b, m); });
    }
}

void check_overlap(const char* api, const View& dst, const View& src, const Lanes& l, bool accumulate) {
    auto bad = [&] { fail("overlap", "%s: dst and a source overlap without being the same", api); };
    if (l.flat) {
        uint64_t d = dst.off, s = src.off, dn = static_cast<uint64_t>(l.n) * dst.esize,
                 sn = static_cast<uint64_t>(l.n) * src.esize;
        if (d < s + sn && s < d + dn && !(d == s && dst.esize == src.esize)) {
            bad();
        }
        return;
    }
    auto span = [&](const View& v) {
        return (static_cast<uint64_t>(l.reps - 1) * v.rep + static_cast<uint64_t>(v.blocks - 1) * v.blk + 1) * 32;
    };
    if (dst.off >= src.off + span(src) || src.off >= dst.off + span(dst)) {
        return;
    }
    static thread_local uint32_t when[kBlocks], stamp;  // blocks that dst has written so far
    if (++stamp > 0xfffffu) {
        memset(when, 0, sizeof(when));
        stamp = 1;
    }
    bool same_width = dst.esize == src.esize;
    uint32_t sb = src.off >> 5, db = dst.off >> 5;
    for (int64_t r = 0; r < l.reps; ++r) {
        const uint32_t* sm = r + 1 == l.reps ? src.bytes_last : src.bytes_full;
        const uint32_t* dm = r + 1 == l.reps ? dst.bytes_last : dst.bytes_full;
        for (uint32_t j = 0; j < src.blocks; ++j) {
            uint32_t b = sb + static_cast<uint32_t>(r) * src.rep + j * src.blk;
            if (sm[j] != 0 && when[b] == stamp && !accumulate) {
                bad();  // written by an earlier repeat
            }
        }
        for (uint32_t j = 0; j < dst.blocks; ++j) {
            if (dm[j] == 0) {
                continue;
            }
            uint32_t b = db + static_cast<uint32_t>(r) * dst.rep + j * dst.blk;
            for (uint32_t k = 0; k < src.blocks; ++k) {
                if (sm[k] != 0 && sb + static_cast<uint32_t>(r) * src.rep + k * src.blk == b &&
                    !(same_width && j == k)) {
                    bad();
                }
            }
            when[b] = stamp;
        }
    }
}

void fetch(const Core& c, const View& v, const Lanes& l, int64_t r, void* to) {
    uint32_t base = v.off + static_cast<uint32_t>(r) * v.rep * 32;
    if (v.blk == 1) {
        memcpy(to, c.ub + base, l.lanes * v.esize);
        return;
    }
    const uint32_t* m = r + 1 == l.reps ? v.bytes_last : v.bytes_full;
    for (uint32_t j = 0; j < v.blocks; ++j) {
        if (m[j] != 0) {
            memcpy(static_cast<uint8_t*>(to) + j * 32, c.ub + base + j * v.blk * 32, 32);
        }
    }
}

void deposit(Core& c, const View& v, const Lanes& l, int64_t r, const void* from) {
    uint32_t base = v.off + static_cast<uint32_t>(r) * v.rep * 32;
    const uint32_t* m = r + 1 == l.reps ? v.bytes_last : v.bytes_full;
    const uint8_t* src = static_cast<const uint8_t*>(from);
    for (uint32_t j = 0; j < v.blocks; ++j) {
        uint8_t* to = c.ub + base + j * v.blk * 32;
        if (m[j] == kFull) {
            memcpy(to, src + j * 32, 32);
        } else if (m[j] != 0) {
            for (uint32_t i = 0; i < 32; ++i) {
                if (m[j] >> i & 1) {
                    to[i] = src[j * 32 + i];
                }
            }
        }
    }
}

void fetch_taint(const Core& c, const View& v, const Lanes& l, int64_t r, uint8_t* to) {
    uint32_t per = 32 / v.esize;
    uint32_t unit = (1u << v.esize) - 1;
    uint32_t base = (v.off >> 5) + static_cast<uint32_t>(r) * v.rep;
    const uint64_t* m = l.of(r);
    for (uint32_t i = 0; i < l.lanes; ++i) {  // inactive lanes may lie outside of UB
        bool active = m[i >> 6] >> (i & 63) & 1;
        to[i] = active && (c.taint[base + i / per * v.blk] >> (i % per * v.esize) & unit) != 0;
    }
}

void deposit_taint(Core& c, const View& v, const Lanes& l, int64_t r, const uint8_t* from) {
    uint32_t per = 32 / v.esize;
    uint32_t unit = (1u << v.esize) - 1;
    uint32_t base = (v.off >> 5) + static_cast<uint32_t>(r) * v.rep;
    const uint64_t* m = l.of(r);
    for (uint32_t i = 0; i < l.lanes; ++i) {
        if (m[i >> 6] >> (i & 63) & 1) {
            uint32_t& t = c.taint[base + i / per * v.blk];
            uint32_t bits = unit << (i % per * v.esize);
            t = from[i] ? t | bits : t & ~bits;
            uint8_t& known = c.bits_known[base + i / per * v.blk];
            known = from[i] ? 0 : known;
        }
    }
}

bool any_taint(const Core& c, const View& v, const Lanes& l) {
    if (l.flat) {
        return c.tainted(v.off, static_cast<uint64_t>(l.n) * v.esize);
    }
    bool any = false;
    for_blocks(v, l, [&](uint32_t b, uint32_t m, int64_t, uint32_t) { any = any || (c.taint[b] & m) != 0; });
    return any;
}

}  // namespace tw
