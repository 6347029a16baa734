// One vector core: UB with its shadow state, buffers and queues, events, mask register, counters.
//
// Shadow state is kept per 32-byte block: a 32-bit mask of uninitialised bytes, and for each pipe the logical time and
// byte mask of its last write and last read. Pipes carry vector clocks: vc[q][p] is the last instruction of pipe p that
// is known to have finished before the next instruction of pipe q starts. An access that is not ordered after an
// earlier conflicting one is a hazard.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "../include/twin/abi.h"

namespace tw {

constexpr uint32_t kUbBytes = 262144;
constexpr uint32_t kBlocks = kUbBytes / 32;
constexpr uint32_t kFull = 0xffffffffu;

enum PipeId : int { PS = 0, PV = 1, PMTE2 = 2, PMTE3 = 3, kPipes = 4 };
extern const char* const kPipeNames[kPipes];

struct Chip {
    uint32_t arch, ub_total, ub_plan, reserved_workspace;
    bool strict_v;  // dependent vector instructions need PipeBarrier<PIPE_V>
};
const Chip& chip_of(uint32_t arch);

struct Violation : std::exception {
    std::string rule, message;
    void* frames[32];
    int nframes = 0;
    const char* what() const noexcept override { return message.c_str(); }
};
struct Aborted : std::exception {};  // another block failed while this one waited for it

enum BufState : uint8_t { kFree, kAllocated, kQueued, kDequeued, kPlain };

struct Buf {
    uint32_t off, len, gen;
    BufState state;
    uint8_t pos;
    int8_t que;  // -1: a TBuf
    int8_t forward_id, backward_id;
};

struct Que {
    uint8_t src, dst, pos, forward, backward;
    uint32_t depth, num, first;
    uint8_t fifo[64];
    uint32_t head, size;
    uint64_t allocs;
    uint32_t max_live, live;
};

struct Flag {
    bool set;
    uint32_t vc[kPipes];
};

struct Counters {
    uint64_t pipe[kPipes];
    uint64_t elements, repeats;  // of the vector pipe
    uint64_t gm_read, gm_written, dma_in, dma_out;
    uint64_t ub_peak, barriers, flags, syncs, queue_allocs;
    uint64_t dma_blocks;  // of dma_in and dma_out together
};

constexpr int kEvents = 35;
constexpr int kMaxBufs = 65;  // index 0 is "no buffer"
constexpr int kMaxQues = 64;

struct Core {
    alignas(64) uint8_t ub[kUbBytes];
    uint32_t taint[kBlocks];  // bit b: byte b of the block is uninitialised
    uint32_t wtime[kPipes][kBlocks], wmask[kPipes][kBlocks];
    uint32_t rtime[kPipes][kBlocks], rmask[kPipes][kBlocks];
    // Compare results are bits: which bits of a tainted byte are uninitialised, valid where bits_known is set.
    uint8_t bit_taint[kUbBytes];
    uint8_t bits_known[kBlocks];

    uint32_t time[kPipes];
    uint32_t vc[kPipes][kPipes];
    const char* log[kPipes][256];  // names of recent instructions, for messages

    Buf bufs[kMaxBufs];
    int nbufs;
    Que ques[kMaxQues];
    int nques;
    uint32_t ub_used;
    bool pipe_live;
    uint32_t live_at[16];  // tensors allocated per TPosition

    Flag flags[kEvents][8];
    uint8_t event_used[kEvents], event_given[kEvents];

    bool counter_mode;
    uint64_t mask[2];
    uint16_t deq_scale;
    bool deq_set;
    uint64_t pad_value;
    bool pad_set;
    bool atomic;
    DT atomic_dt;

    int64_t block;
    uint32_t phase;  // SyncAlls passed
    int ktype;
    bool key_asked, key_matched;
    const char* reserved_by;  // API that uses the reserved part of UB
    char leak[160];
    Counters n;

    void begin(int64_t block_index);
    void finish();
    void order_all();

    // Buffer checks. `extent`: bytes from the start of the tensor that the instruction touches.
    uint32_t resolve(const char* api, const char* what, const Loc& t, uint64_t extent, uint32_t align);
    void need_reserved(const char* api);

    // Hazard checks and stamps over UB bytes [off, off + bytes), or one block under a byte mask.
    void check_read(int pipe, uint32_t off, uint64_t bytes, const char* api);
    void check_write(int pipe, uint32_t off, uint64_t bytes, const char* api);
    void stamp_read(int pipe, uint32_t off, uint64_t bytes);
    void stamp_write(int pipe, uint32_t off, uint64_t bytes);
    // Whether an access of pipe p at time t is not ordered before the instruction now running on `pipe`.
    bool later(uint32_t t, int pipe, int p) const { return t > vc[pipe][p] && !(p == pipe && t == time[p]); }
    bool quiet(int pipe) const {
        for (int p = 0; p < kPipes; ++p) {
            if (time[p] - (p == pipe ? 1 : 0) > vc[pipe][p]) {
                return false;
            }
        }
        return true;
    }
    void check_read_block(int pipe, uint32_t block, uint32_t mask, const char* api) {
        for (int p = 0; p < kPipes; ++p) {
            if (later(wtime[p][block], pipe, p) && (wmask[p][block] & mask)) {
                hazard(pipe, p, block, true, true, api);
            }
        }
    }
    void check_write_block(int pipe, uint32_t block, uint32_t mask, const char* api) {
        for (int p = 0; p < kPipes; ++p) {
            if (later(wtime[p][block], pipe, p) && (wmask[p][block] & mask)) {
                hazard(pipe, p, block, false, true, api);
            }
            if (later(rtime[p][block], pipe, p) && (rmask[p][block] & mask)) {
                hazard(pipe, p, block, false, false, api);
            }
        }
    }
    void stamp_read_block(int pipe, uint32_t block, uint32_t mask) {
        stamp(rtime[pipe][block], rmask[pipe][block], pipe, mask);
    }
    void stamp_write_block(int pipe, uint32_t block, uint32_t mask) {
        stamp(wtime[pipe][block], wmask[pipe][block], pipe, mask);
    }
    [[noreturn]] void hazard(int pipe, int other, uint32_t block, bool reads, bool other_wrote, const char* api);

    // Starts an instruction on a pipe: its logical time, its name, and what the scalar unit had waited for.
    void issue(int pipe, const char* api) {
        for (int p = 1; p < kPipes; ++p) {
            if (vc[PS][p] > vc[pipe][p]) {
                vc[pipe][p] = vc[PS][p];
            }
        }
        ++time[pipe];
        log[pipe][time[pipe] & 255] = api;
        ++n.pipe[pipe];
        if (pipe == PS || (pipe == PV && !strict_v)) {
            vc[pipe][pipe] = time[pipe] - 1;
        }
    }
    bool strict_v;

    uint8_t bits_tainted(uint32_t byte) const {
        if (!(taint[byte >> 5] >> (byte & 31) & 1)) {
            return 0;
        }
        return bits_known[byte >> 5] ? bit_taint[byte] : 0xff;
    }
    void set_bits_tainted(uint32_t byte, uint8_t bits);
    bool tainted(uint32_t off, uint64_t bytes) const;
    void set_taint(uint32_t off, uint64_t bytes, bool on);
    bool tainted_elem(uint32_t off, uint32_t size) const {
        uint32_t m = size >= 32 ? kFull : ((1u << size) - 1) << (off & 31);
        return (taint[off >> 5] & m) != 0;
    }

private:
    void stamp(uint32_t& when, uint32_t& what, int pipe, uint32_t mask) {
        // Bytes of an earlier access stay in the mask while some pipe may still have to wait for it.
        bool settled = true;
        for (int q = 0; q < kPipes; ++q) {
            settled = settled && vc[q][pipe] >= when;
        }
        what = settled ? mask : what | mask;
        when = time[pipe];
    }
};

extern thread_local Core* tls_core;
inline Core& core() {
    return *tls_core;
}

inline uint32_t byte_mask(uint32_t from, uint32_t to) {  // bytes [from, to) of a block, to <= 32
    uint32_t hi = to >= 32 ? kFull : (1u << to) - 1;
    return hi & ~((1u << from) - 1);
}

inline uint32_t dt_size(DT dt) {
    static const uint8_t sizes[DT_COUNT] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8};
    return sizes[dt];
}

// ---- events
const char* event_name(uint8_t event);
void raise_flag(Core& c, uint8_t event, int32_t id);  // SetFlag, and its check
void lower_flag(Core& c, uint8_t event, int32_t id);  // WaitFlag

// ---- global memory during a launch
struct GmBlock {
    uint64_t owner;  // last writer: phase << 48 | atomic << 47 | (block + 1) << 32 | byte mask
    uint64_t reader;
    uint32_t wtime, rtime;  // on the MTE3 and MTE2 pipes of that block (same block only)
    uint32_t init;          // initialised bytes
    uint32_t unused;
};

struct Span {
    uint64_t base, end;
    GmBlock* shadow;  // null: never written
};

struct GmArg {
    uint64_t base, bytes;
    int32_t kind;  // 0 input, 1 output, 2 workspace
    int32_t span;
    uint64_t read, written;  // totals of the launch, added atomically
};

// Finds the argument that holds [address, address + bytes); fails with gm-bounds.
GmArg& gm_find(const char* api, uint64_t address, uint64_t bytes, bool write);
void gm_note_read(const char* api, GmArg& arg, uint64_t address, uint64_t bytes, bool scalar);
void gm_note_write(const char* api, GmArg& arg, uint64_t address, uint64_t bytes, bool atomic, bool scalar);
// Uninitialised bytes among the 32 that start at `address` (bit i: byte i), 0 for memory that is never written.
bool gm_tainted(const GmArg& arg, uint64_t address, uint64_t bytes);
bool gm_byte_tainted(const GmArg& arg, uint64_t address);
const Chip& chip();

}  // namespace tw
