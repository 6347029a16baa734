// Look-alike of exe_graph/runtime/tiling_data.h: the bytes that the kernel reads, of bounded capacity.
#pragma once

#include <cstddef>
#include <cstdint>

#include "twin/rule.h"

namespace gert {

class TilingData {
public:
    TilingData(void* data, const size_t capacity) : data_(data), capacity_(capacity) {}

    size_t GetCapacity() const { return capacity_; }
    size_t GetDataSize() const { return data_size_; }
    void SetDataSize(const size_t size) {
        if (size > capacity_) {
            twin_cann::Broken("tiling data of " + std::to_string(size) + " bytes, but its capacity is " +
                              std::to_string(capacity_));
        }
        data_size_ = size;
    }
    void* GetData() { return data_; }
    const void* GetData() const { return data_; }

private:
    void* data_;
    size_t capacity_;
    size_t data_size_ = 0;
};

}  // namespace gert
