// Buffer, hazard and taint checks of one core.
#include "core.h"

#include <cstdarg>
#include <execinfo.h>

namespace tw {

const char* const kPipeNames[kPipes] = {"S", "V", "MTE2", "MTE3"};
thread_local Core* tls_core = nullptr;

const Chip& chip_of(uint32_t arch) {
    static const Chip chips[] = {
        {2201, 196608, 188416, 16777216, true},
        {3510, 253952, 253952, 16777216, false},
        {2002, 262144, 253952, 2097152, true},
    };
    for (const Chip& c : chips) {
        if (c.arch == arch) {
            return c;
        }
    }
    return chips[0];
}

void fail(const char* rule, const char* format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    Violation v;
    v.rule = rule;
    v.message = text;
    v.nframes = backtrace(v.frames, 32);
    throw v;
}

void Core::begin(int64_t block_index) {
    block = block_index;
    for (int p = 0; p < kPipes; ++p) {
        if (time[p] > 0xf0000000u) {  // wrap-around: start the clocks again
            memset(wtime, 0, sizeof(wtime));
            memset(rtime, 0, sizeof(rtime));
            memset(time, 0, sizeof(time));
        }
    }
    order_all();
    memset(bits_known, 0, sizeof(bits_known));
    memset(flags, 0, sizeof(flags));
    memset(event_used, 0, sizeof(event_used));
    memset(event_given, 0, sizeof(event_given));
    memset(live_at, 0, sizeof(live_at));
    memset(&n, 0, sizeof(n));
    nbufs = 1;
    nques = 0;
    ub_used = 0;
    pipe_live = false;
    counter_mode = false;
    mask[0] = mask[1] = ~0ull;
    deq_set = pad_set = atomic = false;
    phase = 0;
    ktype = chip().arch == 2002 ? 6 : 0;
    key_asked = key_matched = false;
    reserved_by = nullptr;
    leak[0] = 0;
    strict_v = chip().strict_v;
}

void Core::order_all() {
    for (int q = 0; q < kPipes; ++q) {
        for (int p = 0; p < kPipes; ++p) {
            vc[q][p] = time[p];
        }
    }
}

void Core::need_reserved(const char* api) {
    if (chip().ub_plan == chip().ub_total) {
        return;
    }
    reserved_by = api;
    if (ub_used > chip().ub_plan) {
        fail("reserved-ub", "%s uses the top %u bytes of UB, but %u bytes are given to buffers; at most %u may be", api,
             chip().ub_total - chip().ub_plan, ub_used, chip().ub_plan);
    }
}

uint32_t Core::resolve(const char* api, const char* what, const Loc& t, uint64_t extent, uint32_t align) {
    if (t.buf == 0 || t.buf >= nbufs) {
        fail("queue-state", "%s: %s is a tensor that was never allocated", api, what);
    }
    const Buf& b = bufs[t.buf];
    if (b.state == kFree) {
        fail("queue-state", "%s: %s was already given back with FreeTensor", api, what);
    }
    if (b.state == kQueued) {
        fail("queue-state", "%s: %s is in its queue; DeQue it before use", api, what);
    }
    if (t.gen != b.gen) {
        fail("queue-state", "%s: %s is a handle of an earlier AllocTensor of this buffer", api, what);
    }
    if (align > 1 && t.off % align != 0) {
        fail("alignment", "%s: %s starts at UB byte %u, which is not a multiple of %u", api, what, t.off, align);
    }
    uint64_t room = (static_cast<uint64_t>(t.bytes) + (t.off & 31) + 31) / 32 * 32 - (t.off & 31);
    uint64_t left = b.off + static_cast<uint64_t>(b.len) - t.off;
    if (extent > room || extent > left) {
        fail("count", "%s: %s is touched up to byte %llu, but the tensor holds %u bytes (its buffer %llu)", api, what,
             static_cast<unsigned long long>(extent), t.bytes, static_cast<unsigned long long>(left));
    }
    return t.off;
}

void Core::hazard(int pipe, int other, uint32_t block, bool reads, bool other_wrote, const char* api) {
    uint32_t when = other_wrote ? wtime[other][block] : rtime[other][block];
    const char* name = time[other] - when < 256 ? log[other][when & 255] : "an earlier instruction";
    const char* need = pipe == other ? "PipeBarrier" : "flag or queue";
    fail("pipe-hazard", "%s on pipe %s %s UB bytes near %u that %s on pipe %s %s, without a %s in between", api,
         kPipeNames[pipe], reads ? "reads" : "writes", block * 32, name, kPipeNames[other],
         other_wrote ? "writes" : "reads", need);
}

namespace {
template <typename F>
void over_blocks(uint32_t off, uint64_t bytes, F&& f) {
    uint64_t end = off + bytes;
    for (uint32_t b = off >> 5; static_cast<uint64_t>(b) * 32 < end; ++b) {
        uint32_t start = b * 32;
        uint32_t from = off > start ? off - start : 0;
        uint32_t to = end < start + 32ull ? static_cast<uint32_t>(end - start) : 32;
        f(b, byte_mask(from, to));
    }
}
}  // namespace

void Core::check_read(int pipe, uint32_t off, uint64_t bytes, const char* api) {
    if (!quiet(pipe)) {
        over_blocks(off, bytes, [&](uint32_t b, uint32_t m) { check_read_block(pipe, b, m, api); });
    }
}

void Core::check_write(int pipe, uint32_t off, uint64_t bytes, const char* api) {
    if (!quiet(pipe)) {
        over_blocks(off, bytes, [&](uint32_t b, uint32_t m) { check_write_block(pipe, b, m, api); });
    }
}

void Core::stamp_read(int pipe, uint32_t off, uint64_t bytes) {
    uint64_t end = off + bytes;
    uint32_t first = (off + 31) >> 5;
    uint32_t last = static_cast<uint32_t>(end >> 5);
    if (last > first) {
        uint32_t* when = rtime[pipe];
        uint32_t* what = rmask[pipe];
        uint32_t now = time[pipe];
        for (uint32_t b = first; b < last; ++b) {
            when[b] = now;
            what[b] = kFull;
        }
    }
    if (off & 31) {
        uint32_t to = end < first * 32ull ? static_cast<uint32_t>(end & 31) : 32;
        stamp_read_block(pipe, off >> 5, byte_mask(off & 31, to));
    }
    if ((end & 31) && (last >= first || (off & 31) == 0)) {
        stamp_read_block(pipe, last, byte_mask(0, static_cast<uint32_t>(end & 31)));
    }
}

void Core::stamp_write(int pipe, uint32_t off, uint64_t bytes) {
    uint64_t end = off + bytes;
    uint32_t first = (off + 31) >> 5;
    uint32_t last = static_cast<uint32_t>(end >> 5);
    if (last > first) {
        uint32_t* when = wtime[pipe];
        uint32_t* what = wmask[pipe];
        uint32_t now = time[pipe];
        for (uint32_t b = first; b < last; ++b) {
            when[b] = now;
            what[b] = kFull;
        }
    }
    if (off & 31) {
        uint32_t to = end < first * 32ull ? static_cast<uint32_t>(end & 31) : 32;
        stamp_write_block(pipe, off >> 5, byte_mask(off & 31, to));
    }
    if ((end & 31) && (last >= first || (off & 31) == 0)) {
        stamp_write_block(pipe, last, byte_mask(0, static_cast<uint32_t>(end & 31)));
    }
}

bool Core::tainted(uint32_t off, uint64_t bytes) const {
    uint64_t end = off + bytes;
    uint32_t first = (off + 31) >> 5;
    uint32_t last = static_cast<uint32_t>(end >> 5);
    uint32_t any = 0;
    for (uint32_t b = first; b < last; ++b) {
        any |= taint[b];
    }
    if (off & 31) {
        uint32_t to = end < first * 32ull ? static_cast<uint32_t>(end & 31) : 32;
        any |= taint[off >> 5] & byte_mask(off & 31, to);
    }
    if ((end & 31) && (last >= first || (off & 31) == 0)) {
        any |= taint[last] & byte_mask(0, static_cast<uint32_t>(end & 31));
    }
    return any != 0;
}

void Core::set_taint(uint32_t off, uint64_t bytes, bool on) {
    uint64_t end = off + bytes;
    uint32_t first = (off + 31) >> 5;
    uint32_t last = static_cast<uint32_t>(end >> 5);
    auto put = [&](uint32_t b, uint32_t m) {
        taint[b] = on ? taint[b] | m : taint[b] & ~m;
        bits_known[b] = on ? 0 : bits_known[b];
    };
    for (uint32_t b = first; b < last; ++b) {
        taint[b] = on ? kFull : 0;
        bits_known[b] = 0;
    }
    if (off & 31) {
        uint32_t to = end < first * 32ull ? static_cast<uint32_t>(end & 31) : 32;
        put(off >> 5, byte_mask(off & 31, to));
    }
    if ((end & 31) && (last >= first || (off & 31) == 0)) {
        put(last, byte_mask(0, static_cast<uint32_t>(end & 31)));
    }
}

void Core::set_bits_tainted(uint32_t byte, uint8_t bits) {
    uint32_t b = byte >> 5;
    if (!bits_known[b]) {  // until now a tainted byte meant all its bits
        memset(bit_taint + b * 32, 0xff, 32);
        bits_known[b] = 1;
    }
    bit_taint[byte] = bits;
    taint[b] = bits ? taint[b] | 1u << (byte & 31) : taint[b] & ~(1u << (byte & 31));
}

}  // namespace tw
