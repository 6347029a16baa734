// What this library throws inside. Nothing is thrown across its borders: see Guarded in fused_op.cpp and registry.cpp.
#pragma once

#include <stdexcept>
#include <string>

namespace taf {

class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

}  // namespace taf
