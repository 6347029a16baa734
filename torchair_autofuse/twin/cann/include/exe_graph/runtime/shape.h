// Look-alike of exe_graph/runtime/shape.h. GetDim, SetDim and [] of a dim that the shape does not have are errors here;
// CANN returns or changes whatever lies there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "twin/rule.h"

namespace gert {

struct Shape {
public:
    static constexpr size_t kMaxDimNum = 25;
    static constexpr int64_t kInvalidDimValue = std::numeric_limits<int64_t>::min();

    Shape() = default;
    Shape(const std::initializer_list<int64_t>& dims) {
        SetDimNum(dims.size());
        size_t i = 0;
        for (const int64_t dim : dims) {
            dims_[i++] = dim;
        }
    }

    bool operator==(const Shape& other) const {
        bool same = dim_num_ == other.dim_num_;
        for (size_t i = 0; same && i < dim_num_; ++i) {
            same = dims_[i] == other.dims_[i];
        }
        return same;
    }
    bool operator!=(const Shape& other) const { return !(*this == other); }

    // The number of elements; kInvalidDimValue where it does not fit in int64.
    int64_t GetShapeSize() const {
        int64_t size = 1;
        for (size_t i = 0; i < dim_num_; ++i) {
            if (__builtin_mul_overflow(size, dims_[i], &size)) {
                return kInvalidDimValue;
            }
        }
        return size;
    }

    bool IsScalar() const { return dim_num_ == 0; }
    void SetScalar() { dim_num_ = 0; }
    size_t GetDimNum() const { return dim_num_; }
    void SetDimNum(const size_t dim_num) {
        if (dim_num > kMaxDimNum) {
            twin_cann::Broken("a shape has at most 25 dims, not " + std::to_string(dim_num));
        }
        dim_num_ = dim_num;
    }
    int64_t GetDim(const size_t index) const { return dims_[Checked(index)]; }
    void SetDim(size_t index, const int64_t value) { dims_[Checked(index)] = value; }
    const int64_t& operator[](const size_t index) const { return dims_[Checked(index)]; }
    int64_t& operator[](const size_t index) { return dims_[Checked(index)]; }
    Shape& AppendDim(const int64_t value) {
        SetDimNum(dim_num_ + 1);
        dims_[dim_num_ - 1] = value;
        return *this;
    }

private:
    size_t Checked(const size_t index) const {
        if (index >= dim_num_) {
            twin_cann::Broken("dim " + std::to_string(index) + " of a shape that has " + std::to_string(dim_num_));
        }
        return index;
    }

    size_t dim_num_ = 0;
    int64_t dims_[kMaxDimNum] = {};
};

}  // namespace gert
