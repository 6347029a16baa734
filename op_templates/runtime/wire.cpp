#include "wire.h"

#include <string>

#include "error.h"

namespace taf {

bool WireReader::Next() {
    if (rest_.empty()) {
        return false;
    }
    const uint64_t key = TakeVarint();
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) {
        throw Error("damaged definition: field number " + std::to_string(key >> 3));
    }
    field_ = static_cast<uint32_t>(key >> 3);
    type_ = static_cast<uint32_t>(key & 7);
    switch (type_) {
        case kVarint:
            number_ = TakeVarint();
            break;
        case kFixed64:
            Take(8);
            break;
        case kBytes:
            bytes_ = Take(TakeVarint());
            break;
        case kFixed32:
            Take(4);
            break;
        default:
            throw Error("damaged definition: field " + std::to_string(field_) + " is of no known kind");
    }
    return true;
}

uint64_t WireReader::Number() const {
    if (type_ != kVarint) {
        throw Error("damaged definition: field " + std::to_string(field_) + " is not a number");
    }
    return number_;
}

std::string_view WireReader::Bytes() const {
    if (type_ != kBytes) {
        throw Error("damaged definition: field " + std::to_string(field_) + " is not a text or message");
    }
    return bytes_;
}

uint64_t WireReader::TakeVarint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        const uint64_t byte = static_cast<uint8_t>(Take(1).front());
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    throw Error("damaged definition: a number of more than ten bytes");
}

std::string_view WireReader::Take(uint64_t size) {
    if (size > rest_.size()) {
        throw Error("damaged definition: it ends inside field " + std::to_string(field_));
    }
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return taken;
}

}  // namespace taf
