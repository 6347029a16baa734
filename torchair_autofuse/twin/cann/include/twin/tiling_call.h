// One call of a tiling function: what it is given, and what it has set.
#pragma once

#include <optional>
#include <vector>

#include "exe_graph/runtime/tiling_context.h"
#include "tiling/platform/platform_ascendc.h"

namespace twin_cann {

// GE gives a tiling function room for 16 KiB of tiling data, and no kernel here has more than one workspace.
constexpr size_t kTilingCapacity = 16 * 1024;
constexpr size_t kMaxWorkspaces = 16;

struct TilingCall {
    TilingCall(void* data, size_t capacity) : tiling_data(data, capacity) {}

    std::vector<gert::StorageShape> inputs;
    fe::PlatFormInfos platform;
    gert::TilingData tiling_data;
    std::vector<size_t> workspaces;
    std::optional<uint64_t> key;
    std::optional<uint32_t> block_dim;
    uint32_t schedule_mode = 0;
};

}  // namespace twin_cann
