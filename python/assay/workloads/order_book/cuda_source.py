"""CUDA C++ of batched replay: a block an instrument."""

from typing import Final

WIDTH: Final = 8_192
"""Prices of a ladder, which stays where the first price of its instrument is: 128 KB, of which the L1
cache has what is around the touch."""

SOURCE: Final = r"""
// Events of an instrument depend on each other, so one thread applies them; the other threads of the
// block fetch events and the orders that they name, ahead of it. Instruments are independent: a GPU
// takes as many at once as it has room for their ladders.

#define NONE 0xffffffffu
#define NO_BID (-2147483647 - 1)
#define NO_ASK 2147483647
#define CHUNK 128
#define WORDS (WIDTH / 32)
enum { ADD, CANCEL, REPLACE, MARKET, REDUCE };

struct Order {
    unsigned previous, next, quantity;
    int price;
};

struct Level {
    unsigned long long quantity;
    unsigned head, tail;
};

struct Book {
    Level* levels;
    unsigned* occupied;
    Order* orders;
    unsigned long long ids;
    int base, bid, ask;
    double traded, notional;

    __device__ int place(int price) const { return (int)((unsigned)price - (unsigned)base); }
    __device__ bool holds(int price) const { return (unsigned)place(price) < (unsigned)WIDTH; }

    __device__ int below(int price) const {
        int last = place(price);
        unsigned bits = occupied[last / 32] & ((1u << (last % 32)) - 1);
        for (int word = last / 32; ; bits = occupied[--word]) {
            if (bits) return base + word * 32 + 31 - __clz((int)bits);
            if (word == 0) return NO_BID;
        }
    }

    __device__ int above(int price) const {
        int first = place(price);
        unsigned bits = occupied[first / 32] & ~((2u << (first % 32)) - 1);
        for (int word = first / 32; ; bits = occupied[++word]) {
            if (bits) return base + word * 32 + __ffs((int)bits) - 1;
            if (word == WORDS - 1) return NO_ASK;
        }
    }

    __device__ void vacate(int price) {
        int at = place(price);
        occupied[at / 32] &= ~(1u << (at % 32));
        if (price == bid) bid = below(price);
        else if (price == ask) ask = above(price);
    }

    __device__ void link(unsigned id, bool buys, int price, unsigned quantity) {
        Level& level = levels[place(price)];
        orders[id] = Order{level.tail, NONE, quantity, price};
        level.quantity += quantity;
        if (level.tail != NONE) {
            orders[level.tail].next = id;
            level.tail = id;
            return;
        }
        level.head = level.tail = id;
        occupied[place(price) / 32] |= 1u << (place(price) % 32);
        if (buys) bid = price > bid ? price : bid;
        else ask = price < ask ? price : ask;
    }

    __device__ void unlink(unsigned id) {
        Order order = orders[id];
        Level& level = levels[place(order.price)];
        level.quantity -= order.quantity;
        if (order.previous == NONE) level.head = order.next;
        else orders[order.previous].next = order.next;
        if (order.next == NONE) level.tail = order.previous;
        else orders[order.next].previous = order.previous;
        orders[id].quantity = 0;
        if (level.head == NONE) vacate(order.price);
    }

    // What of a quantity trades within a limit.
    __device__ unsigned trade(bool buys, int limit, unsigned quantity, long long& sum) {
        unsigned left = quantity;
        while (left) {
            int price = buys ? ask : bid;
            if (buys ? price > limit : price < limit) break;
            Level& level = levels[place(price)];
            unsigned before = left, head = level.head;
            while (left && head != NONE) {
                Order& order = orders[head];
                unsigned filled = order.quantity < left ? order.quantity : left;
                order.quantity -= filled;
                left -= filled;
                if (order.quantity == 0) head = order.next;
            }
            level.quantity -= before - left;
            sum += (long long)price * (before - left);
            level.head = head;
            if (head == NONE) {
                level.tail = NONE;
                vacate(price);
            } else {
                orders[head].previous = NONE;
            }
        }
        traded += quantity - left;
        notional += (double)sum;
        return quantity - left;
    }

    __device__ unsigned submit(unsigned id, bool buys, int price, unsigned quantity,
                               long long& sum) {
        bool crosses = buys ? price >= ask : price <= bid;
        unsigned filled = crosses ? trade(buys, price, quantity, sum) : 0;
        if (filled < quantity) link(id, buys, price, quantity - filled);
        return filled;
    }

    // 0 where the event was applied, 1 where it is rejected, 2 where its price is not in the ladder.
    __device__ int apply(int kind, int side, unsigned long long id, int price, unsigned quantity,
                         unsigned& filled, long long& sum) {
        if (kind > REDUCE || side > 1 || (kind != CANCEL && quantity == 0)) return 1;
        bool priced = kind == ADD || kind == REPLACE;
        if (priced && (price == NO_BID || price == NO_ASK)) return 1;
        if (kind == MARKET) {
            filled = trade(side == 0, side == 0 ? NO_ASK - 1 : NO_BID + 1, quantity, sum);
            return 0;
        }
        if (id >= ids || (orders[id].quantity != 0) != (kind != ADD)) return 1;
        if (priced && !holds(price)) return 2;
        unsigned slot = (unsigned)id;
        if (kind == ADD) {
            filled = submit(slot, side == 0, price, quantity, sum);
        } else if (kind == REPLACE) {
            bool buys = orders[slot].price <= bid;
            unlink(slot);
            filled = submit(slot, buys, price, quantity, sum);
        } else if (kind == REDUCE && quantity < orders[slot].quantity) {
            orders[slot].quantity -= quantity;
            levels[place(orders[slot].price)].quantity -= quantity;
        } else {
            unlink(slot);
        }
        return 0;
    }
};

extern "C" __global__ void replay_order_books(
    const unsigned char* kinds, const unsigned char* sides, const unsigned long long* ids,
    const int* prices, const unsigned* quantities,
    const unsigned* rows, const unsigned* row_starts,
    unsigned* order_words, const unsigned long long* order_starts,
    unsigned long long* level_words, const int* bases,
    int* bid_price, unsigned long long* bid_quantity,
    int* ask_price, unsigned long long* ask_quantity,
    unsigned* traded, long long* notional, double* microprice, double* vwap,
    unsigned* rejected, int* outside)
{
    __shared__ unsigned occupied[WORDS];
    __shared__ unsigned char chunk_kind[CHUNK], chunk_side[CHUNK];
    __shared__ unsigned long long chunk_id[CHUNK];
    __shared__ int chunk_price[CHUNK];
    __shared__ unsigned chunk_quantity[CHUNK], chunk_row[CHUNK], chunk_order[CHUNK];

    unsigned instrument = blockIdx.x;
    Level* levels = (Level*)level_words + (unsigned long long)WIDTH * instrument;
    for (unsigned place = threadIdx.x; place < WIDTH; place += blockDim.x)
        levels[place] = Level{0, NONE, NONE};
    for (unsigned word = threadIdx.x; word < WORDS; word += blockDim.x) occupied[word] = 0;
    unsigned long long first = order_starts[instrument];
    Book book{levels, occupied, (Order*)order_words + first, order_starts[instrument + 1] - first,
              bases[instrument], NO_BID, NO_ASK, 0.0, 0.0};
    unsigned refused = 0;
    int beyond = -1;
    unsigned end = row_starts[instrument + 1];
    for (unsigned start = row_starts[instrument]; start < end; start += CHUNK) {
        unsigned count = end - start < CHUNK ? end - start : CHUNK;
        __syncthreads();
        for (unsigned at = threadIdx.x; at < count; at += blockDim.x) {
            unsigned row = rows[start + at];
            chunk_row[at] = row;
            chunk_kind[at] = kinds[row];
            chunk_side[at] = sides[row];
            chunk_id[at] = ids[row];
            chunk_price[at] = prices[row];
            chunk_quantity[at] = quantities[row];
            // Brings the order closer; what is read here is not used.
            chunk_order[at] = ids[row] < book.ids ? book.orders[ids[row]].quantity : 0;
        }
        __syncthreads();
        if (threadIdx.x != 0) continue;
        for (unsigned at = 0; at < count; at++) {
            unsigned filled = 0, row = chunk_row[at];
            long long sum = 0;
            int outcome = book.apply(chunk_kind[at], chunk_side[at], chunk_id[at], chunk_price[at],
                                     chunk_quantity[at], filled, sum);
            refused += outcome == 1;
            if (outcome == 2 && beyond < 0) beyond = (int)row;
            unsigned long long bids = book.bid == NO_BID ? 0 : levels[book.place(book.bid)].quantity;
            unsigned long long asks = book.ask == NO_ASK ? 0 : levels[book.place(book.ask)].quantity;
            bid_price[row] = book.bid;
            bid_quantity[row] = bids;
            ask_price[row] = book.ask;
            ask_quantity[row] = asks;
            traded[row] = filled;
            notional[row] = sum;
            // Rounded as on the CPU: nothing is fused.
            double leaning = __dadd_rn(__dmul_rn((double)book.bid, (double)asks),
                                       __dmul_rn((double)book.ask, (double)bids));
            microprice[row] = bids && asks ? leaning / __dadd_rn((double)bids, (double)asks)
                                           : 0.0 / 0.0;
            vwap[row] = book.notional / book.traded;
        }
    }
    if (threadIdx.x == 0) {
        rejected[instrument] = refused;
        outside[instrument] = beyond;
    }
}
"""
