// Look-alike of exe_graph/runtime/kernel_args.h (CANN 9.2): arguments that GE keeps for a launch.
#pragma once

#include <cstddef>

namespace gert {

enum class Placement { kPlacementHost, kPlacementDevice };

struct KernelArgs {
    void* args_data = nullptr;
    size_t args_size = 0;
    Placement placement = Placement::kPlacementHost;
};

}  // namespace gert
