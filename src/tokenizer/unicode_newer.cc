// Code points whose general category in Unicode 16 differs from Unicode 14, from UnicodeData.txt of
// both versions. Debian's PCRE2 10.42 knows Unicode 14; the reference tokenizers know 16.
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr CategoryRange kNewer[] = {
    {0x897, 0x897, Category::kMn},     {0xcf3, 0xcf3, Category::kMc},
    {0xece, 0xece, Category::kMn},     {0x1b4e, 0x1b4f, Category::kPo},
    {0x1b7f, 0x1b7f, Category::kPo},   {0x1c89, 0x1c89, Category::kLu},
    {0x1c8a, 0x1c8a, Category::kLl},   {0x2427, 0x2429, Category::kSo},
    {0x2ffc, 0x2fff, Category::kSo},   {0x31e4, 0x31e5, Category::kSo},
    {0x31ef, 0x31ef, Category::kSo},   {0xa7cb, 0xa7cc, Category::kLu},
    {0xa7cd, 0xa7cd, Category::kLl},   {0xa7da, 0xa7da, Category::kLu},
    {0xa7db, 0xa7db, Category::kLl},   {0xa7dc, 0xa7dc, Category::kLu},
    {0x105c0, 0x105f3, Category::kLo}, {0x10d40, 0x10d49, Category::kNd},
    {0x10d4a, 0x10d4d, Category::kLo}, {0x10d4e, 0x10d4e, Category::kLm},
    {0x10d4f, 0x10d4f, Category::kLo}, {0x10d50, 0x10d65, Category::kLu},
    {0x10d69, 0x10d6d, Category::kMn}, {0x10d6e, 0x10d6e, Category::kPd},
    {0x10d6f, 0x10d6f, Category::kLm}, {0x10d70, 0x10d85, Category::kLl},
    {0x10d8e, 0x10d8f, Category::kSm}, {0x10ec2, 0x10ec4, Category::kLo},
    {0x10efc, 0x10eff, Category::kMn}, {0x1123f, 0x11240, Category::kLo},
    {0x11241, 0x11241, Category::kMn}, {0x11380, 0x11389, Category::kLo},
    {0x1138b, 0x1138b, Category::kLo}, {0x1138e, 0x1138e, Category::kLo},
    {0x11390, 0x113b5, Category::kLo}, {0x113b7, 0x113b7, Category::kLo},
    {0x113b8, 0x113ba, Category::kMc}, {0x113bb, 0x113c0, Category::kMn},
    {0x113c2, 0x113c2, Category::kMc}, {0x113c5, 0x113c5, Category::kMc},
    {0x113c7, 0x113ca, Category::kMc}, {0x113cc, 0x113cd, Category::kMc},
    {0x113ce, 0x113ce, Category::kMn}, {0x113cf, 0x113cf, Category::kMc},
    {0x113d0, 0x113d0, Category::kMn}, {0x113d1, 0x113d1, Category::kLo},
    {0x113d2, 0x113d2, Category::kMn}, {0x113d3, 0x113d3, Category::kLo},
    {0x113d4, 0x113d5, Category::kPo}, {0x113d7, 0x113d8, Category::kPo},
    {0x113e1, 0x113e2, Category::kMn}, {0x116d0, 0x116e3, Category::kNd},
    {0x1171e, 0x1171e, Category::kMc}, {0x11b00, 0x11b09, Category::kPo},
    {0x11bc0, 0x11be0, Category::kLo}, {0x11be1, 0x11be1, Category::kPo},
    {0x11bf0, 0x11bf9, Category::kNd}, {0x11f00, 0x11f01, Category::kMn},
    {0x11f02, 0x11f02, Category::kLo}, {0x11f03, 0x11f03, Category::kMc},
    {0x11f04, 0x11f10, Category::kLo}, {0x11f12, 0x11f33, Category::kLo},
    {0x11f34, 0x11f35, Category::kMc}, {0x11f36, 0x11f3a, Category::kMn},
    {0x11f3e, 0x11f3f, Category::kMc}, {0x11f40, 0x11f40, Category::kMn},
    {0x11f41, 0x11f41, Category::kMc}, {0x11f42, 0x11f42, Category::kMn},
    {0x11f43, 0x11f4f, Category::kPo}, {0x11f50, 0x11f59, Category::kNd},
    {0x11f5a, 0x11f5a, Category::kMn}, {0x1342f, 0x1342f, Category::kLo},
    {0x13439, 0x1343f, Category::kCf}, {0x13440, 0x13440, Category::kMn},
    {0x13441, 0x13446, Category::kLo}, {0x13447, 0x13455, Category::kMn},
    {0x13460, 0x143fa, Category::kLo}, {0x16100, 0x1611d, Category::kLo},
    {0x1611e, 0x16129, Category::kMn}, {0x1612a, 0x1612c, Category::kMc},
    {0x1612d, 0x1612f, Category::kMn}, {0x16130, 0x16139, Category::kNd},
    {0x16d40, 0x16d42, Category::kLm}, {0x16d43, 0x16d6a, Category::kLo},
    {0x16d6b, 0x16d6c, Category::kLm}, {0x16d6d, 0x16d6f, Category::kPo},
    {0x16d70, 0x16d79, Category::kNd}, {0x18cff, 0x18cff, Category::kLo},
    {0x1b132, 0x1b132, Category::kLo}, {0x1b155, 0x1b155, Category::kLo},
    {0x1cc00, 0x1ccef, Category::kSo}, {0x1ccf0, 0x1ccf9, Category::kNd},
    {0x1cd00, 0x1ceb3, Category::kSo}, {0x1d2c0, 0x1d2d3, Category::kNo},
    {0x1df25, 0x1df2a, Category::kLl}, {0x1e030, 0x1e06d, Category::kLm},
    {0x1e08f, 0x1e08f, Category::kMn}, {0x1e4d0, 0x1e4ea, Category::kLo},
    {0x1e4eb, 0x1e4eb, Category::kLm}, {0x1e4ec, 0x1e4ef, Category::kMn},
    {0x1e4f0, 0x1e4f9, Category::kNd}, {0x1e5d0, 0x1e5ed, Category::kLo},
    {0x1e5ee, 0x1e5ef, Category::kMn}, {0x1e5f0, 0x1e5f0, Category::kLo},
    {0x1e5f1, 0x1e5fa, Category::kNd}, {0x1e5ff, 0x1e5ff, Category::kPo},
    {0x1f6dc, 0x1f6dc, Category::kSo}, {0x1f774, 0x1f776, Category::kSo},
    {0x1f77b, 0x1f77f, Category::kSo}, {0x1f7d9, 0x1f7d9, Category::kSo},
    {0x1f8b2, 0x1f8bb, Category::kSo}, {0x1f8c0, 0x1f8c1, Category::kSo},
    {0x1fa75, 0x1fa77, Category::kSo}, {0x1fa87, 0x1fa89, Category::kSo},
    {0x1fa8f, 0x1fa8f, Category::kSo}, {0x1faad, 0x1faaf, Category::kSo},
    {0x1fabb, 0x1fabf, Category::kSo}, {0x1fac6, 0x1fac6, Category::kSo},
    {0x1face, 0x1facf, Category::kSo}, {0x1fada, 0x1fadc, Category::kSo},
    {0x1fadf, 0x1fadf, Category::kSo}, {0x1fae8, 0x1fae9, Category::kSo},
    {0x1faf7, 0x1faf8, Category::kSo}, {0x1fbcb, 0x1fbef, Category::kSo},
    {0x2b739, 0x2b739, Category::kLo}, {0x2ebf0, 0x2ee5d, Category::kLo},
    {0x31350, 0x323af, Category::kLo},
};

}  // namespace

std::span<const CategoryRange> CategoriesSinceUnicode14() { return kNewer; }

}  // namespace mla
