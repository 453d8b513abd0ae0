// Binary files of records of one size: a byte for the label, then the pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace cosformer::data {

// Calls `take` with every record and its number, from 1. Throws Error when the file is empty or not
// a whole number of records.
void ReadRecords(const std::string& path, size_t record_bytes,
                 const std::function<void(std::span<const uint8_t>, int64_t)>& take);

// The label byte as the example's label. Throws Error if it is not below `classes`.
std::string LabelOf(std::span<const uint8_t> record, int classes, const std::string& path,
                    int64_t number);

}  // namespace cosformer::data
