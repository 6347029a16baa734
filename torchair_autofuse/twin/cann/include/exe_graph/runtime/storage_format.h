// Look-alike of exe_graph/runtime/storage_format.h and expand_dims_type.h.
#pragma once

#include "graph/types.h"

namespace gert {

class ExpandDimsType {};

class StorageFormat {
public:
    StorageFormat() = default;
    StorageFormat(const ge::Format origin, const ge::Format storage, const ExpandDimsType&)
        : origin_(origin), storage_(storage) {}
    ge::Format GetOriginFormat() const { return origin_; }
    ge::Format GetStorageFormat() const { return storage_; }

private:
    ge::Format origin_ = ge::FORMAT_RESERVED;
    ge::Format storage_ = ge::FORMAT_RESERVED;
};

}  // namespace gert
