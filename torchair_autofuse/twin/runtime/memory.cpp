// Buffers and queues.
#include <exception>

#include "core.h"

namespace tw {

namespace {

constexpr uint8_t kGm = 0, kVecIn = 9, kVecOut = 10, kVecCalc = 11;
enum Event : uint8_t { MTE2_V = 4, V_MTE2 = 5, MTE3_V = 6, V_MTE3 = 7, V_V = 10, MTE3_MTE2 = 19, MTE2_MTE3 = 20 };

const char* pos_name(uint8_t pos) {
    return pos == kVecIn ? "VECIN" : pos == kVecOut ? "VECOUT" : "VECCALC";
}

Que& que_at(Core& c, uint8_t que, const char* what) {
    if (que >= c.nques) {
        fail("queue-state", "%s on a queue without InitBuffer", what);
    }
    return c.ques[que];
}

uint32_t reserve(Core& c, uint32_t len, uint32_t num, const char* what) {
    if (!c.pipe_live) {
        fail("queue-state", "%s: there is no live TPipe", what);
    }
    if (len == 0 || num == 0) {
        fail("ub-budget", "%s: a buffer of 0 bytes or 0 buffers", what);
    }
    uint64_t rounded = (static_cast<uint64_t>(len) + 31) / 32 * 32;
    uint64_t total = c.ub_used + rounded * num;
    if (total > chip().ub_total) {
        fail("ub-budget", "%s: buffers need %llu bytes of UB, the core has %u", what,
             static_cast<unsigned long long>(total), chip().ub_total);
    }
    if (c.nbufs - 1 + num > kMaxBufs - 1) {
        fail("ub-budget", "%s: more than %d buffers in a kernel", what, kMaxBufs - 1);
    }
    uint32_t off = c.ub_used;
    c.ub_used = static_cast<uint32_t>(total);
    if (total > c.n.ub_peak) {
        c.n.ub_peak = total;
    }
    if (c.reserved_by != nullptr) {
        c.need_reserved(c.reserved_by);
    }
    return off;
}

void poison(Core& c, uint32_t off, uint32_t len) {
    memset(c.ub + off, 0xff, len);
    c.set_taint(off, len, true);
}

void add_buf(Core& c, uint32_t off, uint32_t len, uint8_t pos, int que) {
    Buf& b = c.bufs[c.nbufs];
    b = Buf{off, len, 0, que < 0 ? kPlain : kFree, pos, static_cast<int8_t>(que), -1, -1};
    ++c.nbufs;
    poison(c, off, len);
}

}  // namespace

uint8_t que_init(uint8_t src_pos, uint8_t dst_pos, uint32_t depth, uint32_t num, uint32_t len) {
    Core& c = core();
    if (c.nques >= kMaxQues) {
        fail("ub-budget", "InitBuffer: more than %d queues", kMaxQues);
    }
    uint32_t rounded = (len + 31) / 32 * 32;
    uint32_t off = reserve(c, len, num, "InitBuffer");
    Que& q = c.ques[c.nques];
    memset(&q, 0, sizeof(q));
    q.src = src_pos;
    q.dst = dst_pos;
    q.pos = src_pos == kGm ? kVecIn : src_pos;
    q.depth = depth;
    q.num = num;
    q.first = static_cast<uint32_t>(c.nbufs);
    if (src_pos == kGm) {
        q.forward = MTE2_V, q.backward = V_MTE2;
    } else if (src_pos == kVecOut) {
        q.forward = V_MTE3, q.backward = MTE3_V;
    } else if (src_pos == kVecIn) {
        q.forward = MTE2_MTE3, q.backward = MTE3_MTE2;
    } else {
        q.forward = q.backward = V_V;
    }
    for (uint32_t i = 0; i < num; ++i) {
        add_buf(c, off + i * rounded, rounded, q.pos, c.nques);
    }
    return static_cast<uint8_t>(c.nques++);
}

uint8_t tbuf_init(uint8_t pos, uint32_t len) {
    Core& c = core();
    uint32_t off = reserve(c, len, 1, "InitBuffer");
    add_buf(c, off, (len + 31) / 32 * 32, pos, -1);
    return static_cast<uint8_t>(c.nbufs - 1);
}

Loc tbuf_get(uint8_t buf, uint64_t bytes, uint64_t offset, bool whole) {
    Core& c = core();
    if (buf == 0 || buf >= c.nbufs) {
        fail("queue-state", "TBuf::Get before InitBuffer");
    }
    const Buf& b = c.bufs[buf];
    if (offset % 32 != 0) {
        fail("alignment", "TBuf::GetWithOffset: offset %llu is not a multiple of 32 bytes",
             static_cast<unsigned long long>(offset));
    }
    if (offset + bytes > b.len) {
        fail("count", "TBuf::Get: %llu bytes at offset %llu, the buffer has %u", static_cast<unsigned long long>(bytes),
             static_cast<unsigned long long>(offset), b.len);
    }
    Loc t;
    t.off = b.off + static_cast<uint32_t>(offset);
    t.bytes = static_cast<uint32_t>(whole ? b.len : bytes);
    t.buf = buf;
    t.pos = b.pos;
    return t;
}

Loc que_alloc(uint8_t que) {
    Core& c = core();
    Que& q = que_at(c, que, "AllocTensor");
    for (uint32_t i = 0; i < q.num; ++i) {
        uint32_t index = q.first + (q.allocs + i) % q.num;
        Buf& b = c.bufs[index];
        if (b.state != kFree) {
            continue;
        }
        if (++c.live_at[q.pos] > 8) {
            fail("live-tensors", "AllocTensor: more than 8 tensors allocated at once in %s", pos_name(q.pos));
        }
        if (b.backward_id >= 0) {
            lower_flag(c, q.backward, b.backward_id);
            event_release(q.backward, b.backward_id);
            b.backward_id = -1;
        } else if (q.backward == V_V) {
            c.vc[PV][PV] = c.time[PV];
        }
        q.allocs += i + 1;
        ++c.n.queue_allocs;
        q.live++;
        b.state = kAllocated;
        ++b.gen;
        poison(c, b.off, b.len);
        Loc t;
        t.off = b.off;
        t.bytes = b.len;
        t.gen = b.gen;
        t.buf = static_cast<uint8_t>(index);
        t.pos = q.pos;
        return t;
    }
    fail("queue-state", "AllocTensor: all %u buffers of this %s queue are in use", q.num, pos_name(q.pos));
}

namespace {
Buf& owned(Core& c, uint8_t que, const Loc& t, const char* what) {
    if (t.buf == 0 || t.buf >= c.nbufs) {
        fail("queue-state", "%s: the tensor was never allocated", what);
    }
    Buf& b = c.bufs[t.buf];
    if (b.que != static_cast<int>(que)) {
        fail("queue-state", "%s: the tensor belongs to another queue or a TBuf", what);
    }
    if (b.state == kFree) {
        fail("queue-state", "%s: the tensor was already given back", what);
    }
    if (t.gen != b.gen) {
        fail("queue-state", "%s: the handle is of an earlier AllocTensor", what);
    }
    return b;
}
}  // namespace

void que_enque(uint8_t que, const Loc& t) {
    Core& c = core();
    Que& q = que_at(c, que, "EnQue");
    Buf& b = owned(c, que, t, "EnQue");
    if (b.state == kQueued) {
        fail("queue-state", "EnQue: the tensor is in the queue already");
    }
    uint32_t depth = q.depth == 0 ? 1 : q.depth;
    if (q.size >= depth) {
        fail("queue-state", "EnQue: %u tensors are queued already, the depth of the queue is %u", q.size, q.depth);
    }
    if (q.forward == V_V) {
        c.vc[PV][PV] = c.time[PV];
    } else {
        b.forward_id = event_alloc(q.forward);
        raise_flag(c, q.forward, b.forward_id);
    }
    b.state = kQueued;
    q.fifo[(q.head + q.size++) % 64] = t.buf;
}

Loc que_deque(uint8_t que) {
    Core& c = core();
    Que& q = que_at(c, que, "DeQue");
    if (q.size == 0) {
        fail("queue-state", "DeQue on an empty %s queue", pos_name(q.pos));
    }
    uint8_t index = q.fifo[q.head];
    q.head = (q.head + 1) % 64;
    --q.size;
    Buf& b = c.bufs[index];
    if (b.forward_id >= 0) {
        lower_flag(c, q.forward, b.forward_id);
        event_release(q.forward, b.forward_id);
        b.forward_id = -1;
    }
    b.state = kDequeued;
    Loc t;
    t.off = b.off;
    t.bytes = b.len;
    t.gen = b.gen;
    t.buf = index;
    t.pos = q.pos;
    return t;
}

void que_free(uint8_t que, const Loc& t) {
    Core& c = core();
    Que& q = que_at(c, que, "FreeTensor");
    Buf& b = owned(c, que, t, "FreeTensor");
    if (b.state == kQueued) {
        fail("queue-state", "FreeTensor: the tensor is still in the queue");
    }
    b.state = kFree;
    --c.live_at[q.pos];
    q.live--;
    if (q.backward != V_V) {
        b.backward_id = event_alloc(q.backward);
        raise_flag(c, q.backward, b.backward_id);
    }
}

int32_t que_count(uint8_t que) {
    return static_cast<int32_t>(que_at(core(), que, "GetTensorCountInQue").size);
}
bool que_vacant(uint8_t que) {
    Que& q = que_at(core(), que, "VacantInQue");
    return q.size < (q.depth == 0 ? 1 : q.depth);
}
bool que_idle(uint8_t que) {
    Que& q = que_at(core(), que, "HasIdleBuffer");
    return q.live < q.num;
}

Loc sub_loc(const Loc& t, uint64_t byte_offset) {
    if (byte_offset > t.bytes) {
        fail("count", "LocalTensor[]: byte offset %llu in a tensor of %u bytes",
             static_cast<unsigned long long>(byte_offset), t.bytes);
    }
    Loc s = t;
    s.off += static_cast<uint32_t>(byte_offset);
    s.bytes -= static_cast<uint32_t>(byte_offset);
    return s;
}

void pipe_create() {
    Core& c = core();
    if (c.pipe_live) {
        fail("queue-state", "a second TPipe while one is live");
    }
    c.pipe_live = true;
    c.nbufs = 1;
    c.nques = 0;
    c.ub_used = 0;
    memset(c.live_at, 0, sizeof(c.live_at));
}

namespace {
void forget_event(Core& c, uint8_t event, int8_t id) {
    c.flags[event][id].set = false;
    c.event_used[event] &= static_cast<uint8_t>(~(1u << id));  // the next TPipe starts with all ids
}
}  // namespace

// Runs in a destructor, so it must not throw: a leak is noted and reported when the block ends.
void pipe_destroy() {
    Core& c = core();
    c.pipe_live = false;
    for (int i = 1; i < c.nbufs; ++i) {
        Buf& b = c.bufs[i];
        if (b.state != kFree && b.state != kPlain && c.leak[0] == 0) {
            snprintf(c.leak, sizeof(c.leak), "a tensor of a %s queue of %u bytes was %s but never freed",
                     pos_name(b.pos), b.len, b.state == kQueued ? "enqueued" : "allocated");
        }
        if (b.que >= 0 && b.backward_id >= 0) {  // the destructor waits for these
            forget_event(c, c.ques[b.que].backward, b.backward_id);
            b.backward_id = -1;
        }
        if (b.que >= 0 && b.forward_id >= 0) {
            forget_event(c, c.ques[b.que].forward, b.forward_id);
            b.forward_id = -1;
        }
        b.state = kFree;
        ++b.gen;
    }
    c.order_all();
}

void pipe_reset() {
    pipe_destroy();
    pipe_create();
}

void Core::finish() {
    if (leak[0] != 0) {
        fail("queue-leak", "%s", leak);
    }
    for (int e = 0; e < kEvents; ++e) {
        for (int id = 0; id < 8; ++id) {
            if (flags[e][id].set) {
                fail("flag-pairing", "SetFlag<%s>(%d) was never waited for", event_name(static_cast<uint8_t>(e)), id);
            }
        }
    }
    if (counter_mode) {
        fail("mask", "the kernel ends in counter mode; call SetMaskNorm");
    }
    if (atomic) {
        fail("atomic", "the kernel ends with atomic copies switched on; call SetAtomicNone");
    }
    if (key_asked && !key_matched) {
        fail("tiling-key", "no TILING_KEY_IS branch matches tiling key %llu",
             static_cast<unsigned long long>(tiling_key()));
    }
    if (ktype >= 2 && ktype <= 5 && n.ub_peak > chip().ub_total - 256) {
        fail("ub-budget", "buffers take %llu bytes; a mix kernel has 256 bytes less than %u",
             static_cast<unsigned long long>(n.ub_peak), chip().ub_total);
    }
}

}  // namespace tw
