// Plain text in files and directories, as stretches of whole lines that follow one another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"

namespace cosformer::data {

// The files of a directory and those below it whose names end in `extension`, in the order of their
// paths. Hidden ones are left out. Throws Error when the directory can't be read.
std::vector<std::string> FilesUnder(const std::string& directory, const std::string& extension);

// How long a stretch of a text of so many bytes is to be: short enough that a part of them can be
// held out of a small text.
int64_t StretchBytes(int64_t total_bytes);

// Hands over the text of the files in stretches of about StretchBytes, whole lines each. A line of
// more than 16 times that is cut between two characters. A file that does not end with its line
// gets the missing '\n' where another follows. Only one stretch is in memory, whatever the size of
// the file. Throws Error for what can't be read, for bytes that are not UTF-8 (unless any are
// welcome), and for a text of nothing but blanks.
void ReadStretches(const std::vector<std::string>& files, bool any_bytes, const Take& take);

}  // namespace cosformer::data
