// Look-alike of exe_graph/runtime/tiling_context.h. The driver sets what a tiling function reads
// (twin_cann::TilingCall) and checks afterwards that it has set all it has to.
#pragma once

#include "graph/ge_error_codes.h"
#include "storage_shape.h"
#include "tiling_data.h"

namespace fe {
class PlatFormInfos;
}

namespace twin_cann {
struct TilingCall;
}

namespace gert {

class TilingContext {
public:
    explicit TilingContext(twin_cann::TilingCall& call) : call_(call) {}

    const StorageShape* GetInputShape(const size_t index) const;  // nullptr where there is no such input
    fe::PlatFormInfos* GetPlatformInfo() const;

    // nullptr where T is larger than the capacity.
    template <typename T>
    auto GetTilingData() -> T* {
        TilingData* const data = GetRawTilingData();
        if (data->GetCapacity() < sizeof(T)) {
            return nullptr;
        }
        data->SetDataSize(sizeof(T));
        return static_cast<T*>(data->GetData());
    }
    TilingData* GetRawTilingData();
    size_t* GetWorkspaceSizes(const size_t count);  // nullptr for more than there can be

    ge::graphStatus SetTilingKey(const uint64_t key);
    ge::graphStatus SetBlockDim(const uint32_t block_dim);
    ge::graphStatus SetSimdNumBlocks(const uint32_t num_blocks) { return SetBlockDim(num_blocks); }
    ge::graphStatus SetScheduleMode(const uint32_t mode);

private:
    twin_cann::TilingCall& call_;
};

}  // namespace gert
