// SPDX-License-Identifier: Apache-2.0
// The font is strokes on a grid: x 0..4, y 0 (top of capitals) to 6 (baseline), 8 (descenders). A
// glyph is drawn as the distance to its strokes, so it is smooth at every size.
#include "image/text_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace npuseg::image {

namespace {

constexpr float kLineUnits = 10.0f;    // height of a line in grid units
constexpr float kTopUnits = 1.0f;      // above the capitals
constexpr float kAdvanceUnits = 6.0f;  // one unit of space left and right of a glyph

// Strokes are separated by spaces, points are two digits x y.
constexpr std::array<const char*, 95> kGlyphs = {
    "",                                     // space
    "2024 2626",                            // !
    "1012 3032",                            // "
    "1016 3036 0242 0444",                  // #
    "413010010213334445361605 2026",        // $
    "4006 0010110100 3545463635",           // %
    "460201102031320405162644",             // &
    "2022",                                 // '
    "30212536",                             // (
    "10212516",                             // )
    "2125 0244 0442",                       // *
    "2125 0343",                            // +
    "262718",                               // ,
    "0343",                                 // -
    "2626",                                 // .
    "4006",                                 // /
    "103041453616050110 1432",              // 0
    "112026 1636",                          // 1
    "01103041420646",                       // 2
    "0110304142334445361605 1333",          // 3
    "36300444",                             // 4
    "400002324345361605",                   // 5
    "4130100105163645443303",               // 6
    "004016",                               // 7
    "103041423313020110 1304051636454433",  // 8
    "0516364541301001021343",               // 9
    "2222 2626",                            // :
    "2222 262718",                          // ;
    "410345",                               // <
    "0242 0444",                            // =
    "014305",                               // >
    "01103041422324 2626",                  // ?
    "4616050110304144242242",               // @
    "0602204246 0444",                      // A
    "003041423303 334445360600",            // B
    "4130100105163645",                     // C
    "00304145360600",                       // D
    "40000646 0333",                        // E
    "400006 0333",                          // F
    "41301001051636454323",                 // G
    "0006 4046 0343",                       // H
    "1030 2026 1636",                       // I
    "4045361605",                           // J
    "0006 400346",                          // K
    "000646",                               // L
    "0600234046",                           // M
    "06004640",                             // N
    "103041453616050110",                   // O
    "06003041423303",                       // P
    "103041453616050110 2446",              // Q
    "06003041423303 2346",                  // R
    "413010010213334445361605",             // S
    "0040 2026",                            // T
    "000516364540",                         // U
    "002640",                               // V
    "0016233640",                           // W
    "0046 4006",                            // X
    "002340 2326",                          // Y
    "00400646",                             // Z
    "30202636",                             // [
    "0046",                                 // backslash
    "10202616",                             // ]
    "022042",                               // ^
    "0747",                                 // _
    "1021",                                 // `
    "12324346 441405163645",                // a
    "0006 0312324345361605",                // b
    "4332120305163645",                     // c
    "4046 4332120305163645",                // d
    "04444332120305163645",                 // e
    "40302126 1242",                        // f
    "4332120305163645 4247381807",          // g
    "0006 0312324346",                      // h
    "2020 122226 1636",                     // i
    "3030 32372818",                        // j
    "0006 320436",                          // k
    "10202536",                             // l
    "0206 03122326 23324346",               // m
    "0206 0312324346",                      // n
    "123243453616050312",                   // o
    "0208 0312324345361605",                // p
    "4248 4332120305163645",                // q
    "0206 04223243",                        // r
    "43321203143445361605",                 // s
    "1015263645 0232",                      // t
    "0205163645 4246",                      // u
    "022642",                               // v
    "0216233642",                           // w
    "0246 4206",                            // x
    "0205163645 4247381807",                // y
    "02420646",                             // z
    "30212213242536",                       // {
    "2027",                                 // |
    "10212233242516",                       // }
    "04133443",                             // ~
};
constexpr const char* kUnknownGlyph = "0040460600";

struct Segment {
  float x0, y0, x1, y1;
};

void append_segments(const char* strokes, std::vector<Segment>& segments) {
  bool pen_down = false;
  float x = 0.0f;
  float y = 0.0f;
  for (const char* p = strokes; *p != '\0';) {
    if (*p == ' ') {
      pen_down = false;
      ++p;
      continue;
    }
    const float next_x = static_cast<float>(p[0] - '0');
    const float next_y = static_cast<float>(p[1] - '0');
    if (pen_down) segments.push_back({x, y, next_x, next_y});
    x = next_x;
    y = next_y;
    pen_down = true;
    p += 2;
  }
}

float distance_squared(const Segment& s, float x, float y) {
  const float dx = s.x1 - s.x0;
  const float dy = s.y1 - s.y0;
  const float length = dx * dx + dy * dy;
  float along = 0.0f;
  if (length > 0.0f) along = std::clamp(((x - s.x0) * dx + (y - s.y0) * dy) / length, 0.0f, 1.0f);
  const float ex = x - (s.x0 + along * dx);
  const float ey = y - (s.y0 + along * dy);
  return ex * ex + ey * ey;
}

// The next character's glyph; bytes of one non-ASCII character make one glyph.
const char* next_glyph(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  if (lead >= 0x20 && lead < 0x7F) return kGlyphs[lead - 0x20u];
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80) {
    text.remove_prefix(1);
  }
  return kUnknownGlyph;
}

uint8_t mix(uint8_t from, uint8_t to, float part) {
  const float value = static_cast<float>(from) + (static_cast<float>(to) - from) * part;
  return static_cast<uint8_t>(value + 0.5f);
}

void draw_glyph(Picture& picture, float left, float top, float unit,
                const std::vector<Segment>& segments, Rgb8 colour) {
  const float radius = std::max(0.5f * unit, 0.6f);
  const auto clip = [](float v, uint32_t most) {
    return static_cast<int64_t>(std::clamp(v, 0.0f, static_cast<float>(most)));
  };
  const int64_t x0 = clip(std::floor(left), picture.width);
  const int64_t x1 = clip(std::ceil(left + kAdvanceUnits * unit), picture.width);
  const int64_t y0 = clip(std::floor(top), picture.height);
  const int64_t y1 = clip(std::ceil(top + kLineUnits * unit), picture.height);
  for (int64_t y = y0; y < y1; ++y) {
    uint8_t* row = picture.row(static_cast<size_t>(y));
    const float grid_y = (static_cast<float>(y) + 0.5f - top) / unit - kTopUnits;
    for (int64_t x = x0; x < x1; ++x) {
      const float grid_x = (static_cast<float>(x) + 0.5f - left) / unit - 1.0f;
      float nearest = 1e9f;
      for (const Segment& s : segments) {
        nearest = std::min(nearest, distance_squared(s, grid_x, grid_y));
      }
      const float cover = std::clamp(radius + 0.5f - std::sqrt(nearest) * unit, 0.0f, 1.0f);
      if (cover <= 0.0f) continue;
      uint8_t* pixel = row + x * 3;
      pixel[0] = mix(pixel[0], colour.r, cover);
      pixel[1] = mix(pixel[1], colour.g, cover);
      pixel[2] = mix(pixel[2], colour.b, cover);
    }
  }
}

}  // namespace

uint32_t text_width(std::string_view text, uint32_t height) {
  uint64_t glyphs = 0;
  while (!text.empty()) {
    next_glyph(text);
    ++glyphs;
  }
  const double width = static_cast<double>(glyphs) * static_cast<double>(kAdvanceUnits) * height /
                       static_cast<double>(kLineUnits);
  return static_cast<uint32_t>(std::min(std::ceil(width), 4294967295.0));
}

void draw_text(Picture& picture, int64_t x, int64_t y, uint32_t height, std::string_view text,
               Rgb8 colour) {
  const float unit = static_cast<float>(height) / kLineUnits;
  float left = static_cast<float>(x);
  std::vector<Segment> segments;
  while (!text.empty() && left < static_cast<float>(picture.width)) {
    segments.clear();
    append_segments(next_glyph(text), segments);
    draw_glyph(picture, left, static_cast<float>(y), unit, segments, colour);
    left += kAdvanceUnits * unit;
  }
}

}  // namespace npuseg::image
