#include "data/records.h"

#include <fmt/format.h>

#include <vector>

#include "cosformer/error.h"
#include "data/input_file.h"
#include "report/units.h"

namespace cosformer::data {

void ReadRecords(const std::string& path, size_t record_bytes,
                 const std::function<void(std::span<const uint8_t>, int64_t)>& take) {
  InputFile file(path);
  if (file.size() == 0) throw Error(fmt::format("\"{}\" is empty", path));
  if (file.size() % static_cast<int64_t>(record_bytes) != 0) {
    throw Error(
        fmt::format("\"{}\" has {} bytes, which is not a multiple of {}: a label and {} "
                    "pixels a record; is it whole?",
                    path, report::FormatInteger(file.size()), record_bytes, record_bytes - 1));
  }
  constexpr size_t kRecordsAtOnce = 64;
  std::vector<uint8_t> buffer(kRecordsAtOnce * record_bytes);
  int64_t number = 0;
  while (const size_t count = file.Read(reinterpret_cast<char*>(buffer.data()), buffer.size())) {
    for (size_t begin = 0; begin + record_bytes <= count; begin += record_bytes) {
      take(std::span(buffer).subspan(begin, record_bytes), ++number);
    }
  }
}

std::string LabelOf(std::span<const uint8_t> record, int classes, const std::string& path,
                    int64_t number) {
  if (record[0] < classes) return std::to_string(record[0]);
  throw Error(
      fmt::format("\"{}\", record {}: the label is {}, expected 0 to {}; are these records "
                  "of {} bytes, the label first?",
                  path, number, record[0], classes - 1, record.size()));
}

}  // namespace cosformer::data
