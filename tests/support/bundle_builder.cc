// SPDX-License-Identifier: Apache-2.0
#include "bundle_builder.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "core/bf16.h"
#include "golden_values.h"

namespace npuseg::test {

namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Little-endian numbers one behind the other.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& fill(size_t count, char byte = 0) {
    text.append(count, byte);
    return *this;
  }
  Bytes& put_name(const std::string& name, size_t size) {
    std::string padded = name.substr(0, size);
    padded.resize(size);
    text += padded;
    return *this;
  }
  std::string text;
};

template <class T>
void store(std::string* text, size_t at, T value) {
  std::memcpy(text->data() + at, &value, sizeof value);
}

std::string big_endian(uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  return big_endian(static_cast<uint32_t>(data.size())) + body +
         big_endian(crc32(body.data(), body.size()));
}

}  // namespace

uint32_t float_bits(float value) { return std::bit_cast<uint32_t>(value); }

std::string joined(const std::vector<size_t>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return text;
}

void BundleFiles::write(const std::string& folder) const {
  for (const auto& [path, bytes] : files) {
    const std::filesystem::path whole = std::filesystem::path(folder) / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

size_t BundleFiles::replace_line(const std::string& begin, const std::string& line) {
  std::string changed;
  size_t count = 0;
  std::istringstream lines(files["manifest.txt"]);
  for (std::string at; std::getline(lines, at);) {
    const bool hit = at.compare(0, begin.size(), begin) == 0;
    count += hit ? 1 : 0;
    if (!hit) changed += at + "\n";
    if (hit && !line.empty()) changed += line + "\n";
  }
  files["manifest.txt"] = changed;
  return count;
}

void BundleFiles::add_tensor(const std::string& name, const std::string& dtype,
                             const std::vector<size_t>& shape, const std::string& bytes) {
  std::string& blob = files["tensors.bin"];
  blob.resize((blob.size() + 63) / 64 * 64);
  files["tensors.txt"] += name + " " + dtype + " " + (shape.empty() ? "0" : joined(shape)) + " " +
                          std::to_string(blob.size()) + " " + std::to_string(bytes.size()) + "\n";
  blob += bytes;
}

namespace {

// Where a tensor lies in the blob.
std::pair<size_t, size_t> place_of(const std::string& index, const std::string& name) {
  std::istringstream lines(index);
  std::string found;
  std::string dtype;
  std::string shape;
  size_t offset = 0;
  size_t bytes = 0;
  while (lines >> found >> dtype >> shape >> offset >> bytes) {
    if (found == name) return {offset, bytes};
  }
  std::abort();
}

}  // namespace

char* BundleFiles::find_tensor(const std::string& name) {
  return files["tensors.bin"].data() + place_of(files["tensors.txt"], name).first;
}

size_t BundleFiles::tensor_bytes(const std::string& name) {
  return place_of(files["tensors.txt"], name).second;
}

bool BundleBuilder::dropped(const std::string& text) const {
  const size_t first = text.find(' ');
  const size_t second = first == std::string::npos ? first : text.find(' ', first + 1);
  return drop_.count(text.substr(0, first)) != 0 || drop_.count(text.substr(0, second)) != 0;
}

void BundleBuilder::line(const std::string& text) {
  if (!dropped(text)) manifest_ += text + "\n";
}

void BundleBuilder::param(const std::string& name, const std::string& value) {
  line("param " + name + " " + value);
}

void BundleBuilder::xclbin(const std::string& key) {
  file("kernels/" + key + ".xclbin", make_xclbin(++xclbins_));
}

void BundleBuilder::tensor(const std::string& name, const std::string& dtype,
                           const std::vector<size_t>& shape, const std::string& bytes) {
  if (drop_.count(name) != 0) return;
  blob_.resize((blob_.size() + 63) / 64 * 64);
  index_ += name + " " + dtype + " " + joined(shape) + " " + std::to_string(blob_.size()) + " " +
            std::to_string(bytes.size()) + "\n";
  blob_ += bytes;
}

void BundleBuilder::floats(const std::string& name, const std::vector<size_t>& shape,
                           const Floats& values) {
  tensor(name, "f32", shape, bytes_of(values));
}

void BundleBuilder::halves(const std::string& name, const std::vector<size_t>& shape,
                           const Floats& values) {
  std::vector<uint16_t> narrow(values.size());
  for (size_t i = 0; i < values.size(); ++i) narrow[i] = core::to_bf16(values[i]);
  tensor(name, "bf16", shape, bytes_of(narrow));
}

void BundleBuilder::integers(const std::string& name, const std::vector<size_t>& shape,
                             const std::vector<int32_t>& values) {
  tensor(name, "i32", shape, bytes_of(values));
}

Floats BundleBuilder::random(size_t count, double deviation) {
  const auto scale = static_cast<float>(deviation);
  Floats values(count);
  for (float& value : values) value = random_.normal() * scale;
  return values;
}

void BundleBuilder::random_floats(const std::string& name, const std::vector<size_t>& shape,
                                  double deviation) {
  size_t count = 1;
  for (const size_t dim : shape) count *= dim;
  floats(name, shape, random(count, deviation));
}

void BundleBuilder::norm(const std::string& name, size_t size) {
  Floats weight = random(size, 0.1);
  for (float& value : weight) value = 1 + value;
  floats(name + ".w", {size}, weight);
  random_floats(name + ".b", {size}, 0.1);
}

void BundleBuilder::linear(const std::string& name, size_t out, size_t in, const Linear& how) {
  const Floats weight = random(out * in, how.gain / std::sqrt(static_cast<double>(in)));
  if (how.half) {
    halves(name + ".w", {out, in}, weight);
  } else {
    floats(name + ".w", {out, in}, weight);
  }
  const Floats bias = random(out, 0.1);
  floats(name + ".b", {out}, how.bias == nullptr ? bias : *how.bias);
}

std::string BundleBuilder::pack(const bundle::PackedLayout& layout, const Floats& b,
                                const Floats* bias) {
  std::string bytes(layout.bytes(), '\0');
  const core::Status status =
      bundle::pack_matrix(layout, b.data(), layout.n, 1, bias == nullptr ? nullptr : bias->data(),
                          {reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()});
  return status.ok() ? bytes : std::string();
}

std::string BundleBuilder::pack_noise(const bundle::PackedLayout& layout, double deviation,
                                      const Floats* bias) {
  std::string data = random_.bytes(layout.k * layout.n / 8 * bundle::kBlockBytes);
  const int exponent = static_cast<int>(std::floor(std::log2(deviation / 73.0))) + 133;
  for (size_t at = 0; at < data.size(); at += bundle::kBlockBytes) {
    data[at] = static_cast<char>(exponent);
  }
  if (bias == nullptr) return data;
  // The biases as packing a matrix of zeros places them.
  std::string whole = pack(layout, Floats(layout.k * layout.n), bias);
  const size_t column = layout.column_block_bytes();
  const size_t chunk = layout.chunk_bytes();
  for (size_t block = 0; block < layout.n / layout.tile_n; ++block) {
    whole.replace(block * column + chunk, column - chunk, data, block * (column - chunk),
                  column - chunk);
  }
  return whole;
}

void BundleBuilder::packed(const std::string& name, const std::string& key, const Floats* b,
                           const Floats* bias, double deviation) {
  const bundle::PackedLayout& layout = gemms.at(key).b;
  Floats drawn_bias;
  if (layout.bias && bias == nullptr) {
    drawn_bias = random(layout.n, 0.1);
    bias = &drawn_bias;
  }
  if (!layout.bias) bias = nullptr;
  const double scale = deviation == 0 ? 1 / std::sqrt(static_cast<double>(layout.k)) : deviation;
  std::string bytes;
  if (b != nullptr) {
    bytes = pack(layout, *b, bias);
  } else if (layout.k * layout.n > (size_t{1} << 20)) {
    bytes = pack_noise(layout, scale, bias);
  } else {
    bytes = pack(layout, random(layout.k * layout.n, scale), bias);
  }
  tensor(name, "u8", {bytes.size()}, bytes);
}

BundleFiles BundleBuilder::finish() {
  out_.files["manifest.txt"] = manifest_;
  out_.files["tensors.txt"] = index_;
  out_.files["tensors.bin"] = blob_;
  return out_;
}

std::string make_stream(StreamKind kind, const std::string& name,
                        const std::vector<uint32_t>& params, uint32_t mode, uint32_t work) {
  Bytes body;
  uint32_t count = 0;
  const auto write = [&](uint32_t address, uint32_t value) {
    body.put(uint32_t{0}).put(uint32_t{0}).put(address).put(uint32_t{0}).put(value);
    body.put(uint32_t{0x18});
    ++count;
  };
  for (uint32_t column = 0; column < 8; ++column) {
    for (uint32_t row = 0; row < 4; ++row) {
      const uint32_t tile = (column << 25) | ((2 + row) << 20);
      if (kind == StreamKind::kGemm) {
        write(tile | 0x400, work);
        write(tile | 0x404, 1);
        write(tile | 0x408, mode);
        write(tile | 0x1f000, 0);
      } else if (kind == StreamKind::kMha) {
        write(tile | 0x400, params[1]);
        write(tile | 0x404, 0);
      }
    }
  }
  Bytes payload;
  payload.put(uint32_t{0x5455504e}).put(uint32_t{1}).put(static_cast<uint32_t>(kind));
  payload.put_name(name, 16).put(static_cast<uint32_t>(params.size()));
  for (const uint32_t param : params) payload.put(param);
  body.put(uint32_t{1}).put(uint32_t{0}).put(uint32_t{0x1d000});
  body.put(static_cast<uint32_t>(16 + payload.text.size()));
  body.text += payload.text;
  Bytes whole;
  whole.put(uint32_t{0x06040100}).put(uint32_t{0x00000108}).put(count + 1);
  whole.put(static_cast<uint32_t>(16 + body.text.size()));
  return whole.text + body.text;
}

std::string make_xclbin(uint32_t number, uint16_t columns, size_t buffers) {
  std::string pdi;
  {
    std::string digits = std::to_string(number);
    digits.insert(0, 8 - digits.size(), '0');
    for (int i = 0; i < 8; ++i) pdi += "PDI-placeholder-" + digits + "-";
  }
  constexpr size_t kFixed = 184;
  Bytes heap;
  const auto put = [&](const std::string& bytes, size_t align = 8) {
    while ((kFixed + heap.text.size()) % align != 0) heap.fill(1);
    heap.text += bytes;
    return static_cast<uint32_t>(kFixed + heap.text.size() - bytes.size());
  };
  const uint32_t empty = put(std::string(1, '\0'));
  const uint32_t name = put(std::string("DPU\0", 4));
  const uint32_t starts = put(Bytes().put(uint16_t{0}).text);
  const uint32_t pdi_at = put(pdi, 16);
  const uint32_t ids = put(Bytes().put(uint64_t{0x901}).text);
  const uint32_t before = put(Bytes().put(uint64_t{0xc1}).text);
  Bytes group;
  group.put(name).put(uint8_t{1}).fill(3).put(uint64_t{1}).put(uint32_t{1}).put(ids);
  group.put(uint32_t{1}).put(before).fill(64);
  const uint32_t group_at = put(group.text);
  std::string uuid;
  const uint32_t crc = crc32(pdi.data(), pdi.size());
  for (int i = 0; i < 4; ++i) uuid += Bytes().put(crc).text;
  Bytes record;
  record.text = uuid;
  record.put(static_cast<uint32_t>(pdi.size())).put(pdi_at).put(uint32_t{1}).put(group_at).fill(64);
  const uint32_t record_at = put(record.text);
  std::string part(kFixed, '\0');
  store(&part, 4, empty);
  store(&part, 8, uint32_t{2048});
  store(&part, 16, uint64_t{23423});
  store(&part, 24, uint64_t{12345});
  store(&part, 32, columns);
  store(&part, 40, uint32_t{1});
  store(&part, 44, starts);
  store(&part, 120, uint32_t{1});
  store(&part, 124, record_at);
  store(&part, 128, empty);
  part += heap.text;

  const auto argument = [](const std::string& arg, int qualifier, size_t id, const char* size,
                           size_t offset, const char* type, int width) {
    char hex[32];
    std::snprintf(hex, sizeof hex, "0x%0*zx", width, offset);
    return "<arg name=\"" + arg + "\" addressQualifier=\"" + std::to_string(qualifier) +
           "\" id=\"" + std::to_string(id) + "\" size=\"" + size + "\" offset=\"" + hex +
           "\" hostOffset=\"0x0\" hostSize=\"" + size + "\" type=\"" + type + "\"/>";
  };
  std::string xml =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<project><platform><device><core>"
      "<kernel name=\"MLIR_AIE\" language=\"c\" type=\"dpu\">"
      "<extended-data subtype=\"1\" functional=\"0\" dpu_kernel_id=\"0x901\"/>";
  xml += argument("opcode", 0, 0, "0x8", 0, "uint64_t", 2);
  xml += argument("instr", 1, 1, "0x8", 8, "char *", 2);
  xml += argument("ninstr", 0, 2, "0x4", 16, "uint32_t", 2);
  for (size_t i = 0; i < buffers; ++i) {
    xml += argument("bo" + std::to_string(i), 1, 3 + i, "0x8", 0x14 + 8 * i, "void*", 0);
  }
  xml += "<instance name=\"MLIRAIE\"/></kernel></core></device></platform></project>";
  xml.push_back('\0');
  Bytes layout;
  layout.put(int32_t{1}).fill(4).put(uint32_t{7}).put(uint32_t{0x09010001}).put(UINT64_MAX);
  layout.put_name("MLIR_AIE:MLIRAIE", 64);
  Bytes memory;
  memory.put(int32_t{2}).fill(4);
  for (const auto& [tag, kilobytes] : {std::pair("HOST", 0x10000), std::pair("SRAM", 0xc000)}) {
    memory.put(uint8_t{2}).put(uint8_t{1}).fill(6).put(static_cast<uint64_t>(kilobytes));
    memory.put(uint64_t{0x4000000}).put_name(tag, 16);
  }
  Bytes connections;
  connections.put(static_cast<int32_t>(1 + buffers));
  connections.put(int32_t{1}).put(int32_t{0}).put(int32_t{1});
  for (size_t i = 0; i < buffers; ++i) {
    connections.put(static_cast<int32_t>(3 + i)).put(int32_t{0}).put(int32_t{0});
  }
  const std::pair<uint32_t, std::string> sections[] = {
      {32, part}, {2, xml}, {8, layout.text}, {6, memory.text}, {7, connections.text}};
  std::string head(456, '\0');
  head.replace(0, 8, std::string("xclbin2\0", 8));
  store(&head, 8, int32_t{-1});
  head.replace(12, 284, std::string(284, '\xff'));
  head[330] = 2;
  head[331] = 25;
  head.replace(416, 16, uuid);
  store(&head, 448, static_cast<uint32_t>(std::size(sections)));
  const size_t base = head.size() + 40 * std::size(sections);
  Bytes table;
  std::string body;
  for (const auto& [kind, data] : sections) {
    while ((base + body.size()) % 8 != 0) body.push_back('\0');
    table.put(kind)
        .put_name(kind == 32 ? "AIE_PARTITION" : "", 16)
        .fill(4)
        .put(uint64_t{base + body.size()})
        .put(uint64_t{data.size()});
    body += data;
  }
  std::string whole = head + table.text + body;
  store(&whole, 304, uint64_t{whole.size()});
  return whole;
}

std::string test_picture(size_t width, size_t height) {
  std::string rgb(width * height * 3, '\0');
  for (size_t k = 0; k < rgb.size(); ++k) rgb[k] = static_cast<char>(u8v(k));
  return rgb;
}

std::string plain_png(size_t width, size_t height, const std::string& rgb) {
  std::string raw;
  for (size_t y = 0; y < height; ++y) raw += '\0' + rgb.substr(y * width * 3, width * 3);
  std::string packed("\x78\x01", 2);
  constexpr size_t kMostStored = 65535;
  for (size_t at = 0; at < raw.size(); at += kMostStored) {
    const std::string piece = raw.substr(at, kMostStored);
    const auto length = static_cast<uint16_t>(piece.size());
    Bytes block;
    block.put(static_cast<uint8_t>(at + piece.size() == raw.size() ? 1 : 0)).put(length);
    block.put(static_cast<uint16_t>(~length));
    packed += block.text + piece;
  }
  uint32_t low = 1;
  uint32_t high = 0;
  for (const char byte : raw) {
    low = (low + static_cast<unsigned char>(byte)) % 65521;
    high = (high + low) % 65521;
  }
  packed += big_endian((high << 16) | low);
  std::string header = big_endian(static_cast<uint32_t>(width)) +
                       big_endian(static_cast<uint32_t>(height)) + std::string("\x08\x02\0\0\0", 5);
  return std::string("\x89PNG\r\n\x1a\n", 8) + png_chunk("IHDR", header) +
         png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

}  // namespace npuseg::test
