// The numbers of one product of a warp group: 64 rows of a, up to 256 columns of b, 16 deep.
#pragma once

namespace warpcpu {

constexpr int kProductRows = 64, kProductColumns = 256, kProductDepth = 16;

// Matrices as float64, which holds every product; `..._size` has the power of two at or below each magnitude, 0 for 0.
struct Operands {
    double a[kProductRows][kProductDepth], a_size[kProductRows][kProductDepth];
    alignas(32) double b[kProductDepth][kProductColumns], b_size[kProductDepth][kProductColumns];
    bool a_finite[kProductRows], b_finite[kProductColumns];
    alignas(32) float sums[kProductRows][kProductColumns];
};

}  // namespace warpcpu
