// SPDX-License-Identifier: Apache-2.0
// How the text files of a bundle are cut into lines and words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace npuseg::bundle {

// Lines without their ends ("\n" or "\r\n"); a line end at the end of the text opens no new line.
std::vector<std::string_view> split_lines(std::string_view text);
// Words between runs of Unicode white space; at least one, which is empty when there is none.
std::vector<std::string> split_words(std::string_view line);
// Everything behind the first `fields` + 1 words, less one leading ASCII space.
std::string rest_of_line(std::string_view line, size_t fields);
// Pieces between separators, empty ones included; at least one.
std::vector<std::string> split_at(std::string_view text, char separator);

}  // namespace npuseg::bundle
