#include "report/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace cosformer::report {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// Blocks rather than Unicode's full tables: what a line about a run can be expected to hold.
constexpr std::array<CodeRange, 6> kNoColumn = {{{0x300, 0x36F},
                                                 {0x483, 0x489},
                                                 {0x1AB0, 0x1AFF},
                                                 {0x200B, 0x200F},
                                                 {0x20D0, 0x20FF},
                                                 {0xFE00, 0xFE0F}}};
constexpr std::array<CodeRange, 9> kTwoColumns = {{{0x1100, 0x115F},
                                                   {0x2E80, 0x303E},
                                                   {0x3041, 0xA4CF},
                                                   {0xAC00, 0xD7A3},
                                                   {0xF900, 0xFAFF},
                                                   {0xFE30, 0xFE6F},
                                                   {0xFF00, 0xFF60},
                                                   {0x1F300, 0x1FAFF},
                                                   {0x20000, 0x3FFFD}}};

template <size_t size>
bool Within(const std::array<CodeRange, size>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(), [code](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

struct Character {
  size_t bytes = 1;
  int columns = 1;
};

// The first character of the text, which is not empty.
Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (bytes == 1 || bytes > text.size()) return {};
  char32_t code = lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3Fu);
  }
  return {bytes, Within(kNoColumn, code) ? 0 : Within(kTwoColumns, code) ? 2 : 1};
}

bool LocaleIsUtf8() {
  // The first that is set counts, as for the C library.
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale;
    for (const char* c = value; *c != '\0'; ++c) {
      if (*c != '-') locale += static_cast<char>(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    return locale.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

Screen StderrScreen() {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  const char* no_colour = std::getenv("NO_COLOR");
  Screen screen;
  screen.terminal = isatty(STDERR_FILENO) == 1 && !dumb;
  screen.utf8 = LocaleIsUtf8();
  screen.colour = screen.terminal && (no_colour == nullptr || *no_colour == '\0');
  winsize size{};
  if (screen.terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) screen.columns = size.ws_col;
  return screen;
}

int ColumnsOf(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    columns += character.columns;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string FitColumns(std::string_view text, int columns, bool utf8) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = ' ';
  }
  if (ColumnsOf(line) <= columns) return line;
  const std::string_view ellipsis = utf8 ? "…" : "...";
  const int room = columns - ColumnsOf(ellipsis);
  if (room < 0) return "";
  size_t kept = 0;
  for (int used = 0; kept < line.size();) {
    const Character character = FirstCharacter(std::string_view(line).substr(kept));
    used += character.columns;
    if (used > room) break;
    kept += character.bytes;
  }
  line.resize(kept);
  return line.append(ellipsis);
}

void LiveLine::Show(const std::string& line) {
  fmt::print(stream_, "\r\x1b[K{}", line);
  std::fflush(stream_);
  shown_ = true;
}

void LiveLine::Clear() {
  if (!shown_) return;
  fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
  shown_ = false;
}

void LiveLine::Print(const std::string& line) {
  Clear();
  fmt::print(stream_, "{}\n", line);
  std::fflush(stream_);
}

}  // namespace cosformer::report
