// Numbers as a person reads them: 1.25 ms, 3.4 M, 16,384, 12.5 MiB.
#pragma once

#include <cstdint>
#include <string>

namespace cosformer::report {

std::string FormatSeconds(double seconds);   // three significant digits: "812 ns", "1.25 ms"
std::string FormatDuration(double seconds);  // "45 s", "2 min 10 s", "1 h 05 min", "3 d 04 h"
std::string FormatCount(double count);       // three significant digits: "950", "3.40 M"
std::string FormatBytes(double bytes);       // "0 B", "512 B", "12.5 MiB"
std::string FormatRatio(double ratio);       // three significant digits: "1.25 ×", "130 ×"
std::string FormatInteger(int64_t value);    // "16,384"

// `value` with an SI prefix before the unit, in at most `digits` significant digits and no trailing
// zeros: (0.02, "s") is "20 ms".
std::string FormatSi(double value, const std::string& unit, int digits = 4);

}  // namespace cosformer::report
