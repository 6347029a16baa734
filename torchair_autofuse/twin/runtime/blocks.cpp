// What a block sees of its launch: SyncAll, its index, tiling data, workspace.
#include "launch.h"

namespace tw {

thread_local Launch* tls_launch = nullptr;
thread_local int64_t tls_position = 0;

const Chip& chip() {
    return *launch().chip;
}

namespace {

void meet(int64_t cores, const char* api) {
    Core& c = core();
    Launch& l = launch();
    c.order_all();
    ++c.n.syncs;
    if (l.blocks > 1 && cores > 1) {
        std::unique_lock<std::mutex> hold(l.lock);
        uint64_t mine = l.generation;
        ++l.arrived;
        if (l.arrived == cores) {
            l.arrived = 0;
            l.turn = 0;
            ++l.generation;
        } else {
            ++l.turn;
        }
        l.wake.notify_all();
        l.wake.wait(hold, [&] {
            return (l.generation != mine && (!l.serial || l.turn == tls_position)) || l.broken ||
                   (l.generation == mine && l.ended + l.arrived == l.blocks && l.ended > 0);
        });
        if (l.generation == mine) {
            if (l.broken) {
                throw Aborted();
            }
            hold.unlock();
            fail("sync-all", "%s: %lld of %lld blocks ended without it; the others would hang", api,
                 static_cast<long long>(l.ended), static_cast<long long>(l.blocks));
        }
    }
    ++c.phase;
}

}  // namespace

void sync_all_hard() {
    Core& c = core();
    if (c.ktype == 0) {
        fail("sync-all", "SyncAll without workspace needs the kernel type KERNEL_TYPE_MIX_AIV_1_0");
    }
    meet(launch().blocks, "SyncAll");
}

void sync_all_soft(const void* gm, uint64_t gm_bytes, const Loc& ub, int32_t used_cores) {
    Core& c = core();
    Launch& l = launch();
    int64_t cores = used_cores == 0 ? l.blocks : used_cores;
    uint64_t need = static_cast<uint64_t>(l.blocks) * 32;
    if (cores < 1 || cores > l.blocks) {
        fail("sync-all", "SyncAll: %d cores of %lld blocks", used_cores, static_cast<long long>(l.blocks));
    }
    uint64_t at = reinterpret_cast<uint64_t>(gm);
    gm_find("SyncAll", at, need, true);
    bool zero = true;  // what the host left there, as long as no block has met another
    for (uint64_t i = 0; i < need && c.phase == 0; ++i) {
        zero = zero && static_cast<const uint8_t*>(gm)[i] == 0;
    }
    if ((gm_bytes != 0 && gm_bytes < need) || !zero) {
        fail("sync-all", "SyncAll: gmWorkspace must be zeroed and hold %llu bytes (32 per block)",
             static_cast<unsigned long long>(need));
    }
    c.resolve("SyncAll", "ubWorkspace", ub, need, 32);
    meet(cores, "SyncAll");
}

int64_t block_idx() {
    return core().block;
}
int64_t block_num() {
    return launch().blocks;
}
uint64_t tiling_key() {
    return launch().key;
}
bool tiling_key_is(uint64_t key) {
    Core& c = core();
    c.key_asked = true;
    bool match = key == launch().key;
    c.key_matched = c.key_matched || match;
    return match;
}
void tiling_copy(void* to, const void* from, size_t bytes, size_t offset, size_t whole) {
    Launch& l = launch();
    if (from != l.tiling) {
        fail("tiling-size", "GET_TILING_DATA: the second argument is not the kernel's tiling parameter");
    }
    if (whole != l.tiling_bytes) {
        fail("tiling-size", "the tiling struct has %llu bytes, the launch passes %llu",
             static_cast<unsigned long long>(whole), static_cast<unsigned long long>(l.tiling_bytes));
    }
    if (whole % 8 != 0) {
        fail("tiling-size", "the tiling struct has %llu bytes, not a multiple of 8",
             static_cast<unsigned long long>(whole));
    }
    memcpy(to, static_cast<const char*>(from) + offset, bytes);
}
void kernel_type(int type) {
    core().ktype = type;
}
void* user_workspace(void* workspace) {
    return static_cast<char*>(workspace) + chip().reserved_workspace;
}

}  // namespace tw
