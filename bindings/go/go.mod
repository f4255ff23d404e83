// SPDX-License-Identifier: Apache-2.0
module example.org/npuseg

go 1.19
