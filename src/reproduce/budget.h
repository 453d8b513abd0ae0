// Amounts as people type them, and a budget of time shared out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cosformer::reproduce {

// "2h", "90m", "7200s", "1h30m": seconds. Throws Error, naming the option, for anything else.
double ParseDuration(const std::string& text, const char* option);

// "8G", "512M", "1.5G", in powers of 1,024; a plain number is bytes. Throws Error, naming the
// option, for anything else and for 0.
int64_t ParseBytes(const std::string& text, const char* option);

// The budget in parts by weight: equal weights, equal parts. All are 0 where no weight is more.
std::vector<double> Shares(double budget, std::span<const double> weights);

}  // namespace cosformer::reproduce
