// Reads protobuf's wire format, so that the library needs no protobuf beside the one that GE carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace taf {

// The fields of one message, in the order they lie. Any bytes may be given: what is damaged throws Error.
class WireReader {
public:
    explicit WireReader(std::string_view bytes) : rest_(bytes) {}

    // Goes to the next field; false at the end. A field whose value nobody asks for is skipped.
    bool Next();

    uint32_t Field() const { return field_; }
    uint64_t Number() const;         // of a varint field
    std::string_view Bytes() const;  // of a string, bytes or message field

private:
    enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

    uint64_t TakeVarint();
    std::string_view Take(uint64_t size);

    std::string_view rest_;
    uint32_t field_ = 0;
    uint32_t type_ = kVarint;
    uint64_t number_ = 0;
    std::string_view bytes_;
};

}  // namespace taf
