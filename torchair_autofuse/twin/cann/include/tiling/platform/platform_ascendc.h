// Look-alike of tiling/platform/platform_ascendc.h, for the chip that the driver describes.
#pragma once

#include <cstdint>

#include "twin/rule.h"

namespace fe {
// Opaque in CANN.
class PlatFormInfos {
public:
    int64_t vector_cores = 0;
    int64_t ub_bytes = 0;
    int64_t lib_workspace_bytes = 0;
};
}  // namespace fe

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };

class PlatformAscendC {
public:
    PlatformAscendC() = delete;
    explicit PlatformAscendC(fe::PlatFormInfos* infos) : infos_(infos) {
        if (infos == nullptr) {
            twin_cann::Broken("PlatformAscendC of a null platform");
        }
    }

    uint32_t GetCoreNumAiv() const { return static_cast<uint32_t>(infos_->vector_cores); }
    uint32_t GetLibApiWorkSpaceSize() const { return static_cast<uint32_t>(infos_->lib_workspace_bytes); }
    void GetCoreMemSize(const CoreMemType& type, uint64_t& size) const {
        if (type != CoreMemType::UB) {
            twin_cann::Broken("a vector kernel asks for the size of UB only, not of memory " +
                              std::to_string(static_cast<int>(type)));
        }
        size = static_cast<uint64_t>(infos_->ub_bytes);
    }

private:
    fe::PlatFormInfos* infos_;
};

}  // namespace platform_ascendc
