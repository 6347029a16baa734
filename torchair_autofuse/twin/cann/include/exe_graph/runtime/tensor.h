// Look-alike of exe_graph/runtime/tensor.h: a tensor of GE's runtime, its memory owned elsewhere.
#pragma once

#include "storage_format.h"
#include "storage_shape.h"

namespace gert {

class Tensor {
public:
    Tensor() = default;
    Tensor(const StorageShape& shape, const StorageFormat& format, const ge::DataType type, void* address)
        : shape_(shape), format_(format), type_(type), address_(address) {}

    const StorageShape& GetShape() const { return shape_; }
    const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
    const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
    const StorageFormat& GetFormat() const { return format_; }
    ge::DataType GetDataType() const { return type_; }
    const void* GetAddr() const { return address_; }
    void* GetAddr() { return address_; }

private:
    StorageShape shape_;
    StorageFormat format_;
    ge::DataType type_ = ge::DT_UNDEFINED;
    void* address_ = nullptr;
};

}  // namespace gert
