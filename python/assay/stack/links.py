"""Links: the way of a packet between nodes, in time, in useful bits and in energy.

A message crosses adapters, switches and fiber. Light in glass needs five nanoseconds a meter; forward error
correction waits for a whole codeword; headers and parity take their share of the line; and at a port that is used
to a share, packets wait for each other.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, ceil, cited, exp, number
from assay.stack import interconnect, physics
from assay.stack.cluster import network

scope = Scope("links", "Packets, fiber and error correction")

_DALLY = "Dally and Towles 2004, Principles and Practices of Interconnection Networks"
_LATENCY = cited(_DALLY, "sec. 3.3, latency: header, serialization and time of flight")
_FEC = cited("IEEE 802.3-2022, Standard for Ethernet", "clause 91, Reed-Solomon forward error correction (544, 514)")
_QUEUE = cited("Kleinrock 1975, Queueing Systems, volume 1", "ch. 5, M/G/1: mean wait")
_PACKET = cited("InfiniBand Trade Association, InfiniBand Architecture Specification 1.4", "packet headers")
_SERDES = cited(
    "Miller 2017, Attojoule Optoelectronics for Low-Energy Information Processing", "energy of links by bit"
)
_BITS = number("8 bit/byte")

length = scope.declare(
    "fiber.length, L_f [m]: fiber between two nodes, all hops together", reference=_LATENCY, boundary="scenario"
)
group_index = scope.declare(
    "fiber.index, n_g: group index of the fiber; unless given, 1.468",
    equals=1.468,
    bounds=(1, None),
    reference=_LATENCY,
)
flight_time = scope.declare(
    "fiber.flight_time, t_f [s as ns]: time of flight",
    equals=length * group_index / physics.light_speed,
    reference=_LATENCY,
    target=True,
)
hops = scope.declare("hops, n_h: switches on the way", reference=_LATENCY, boundary="scenario")
switch_latency = scope.declare(
    "switch.latency, t_sw [s as ns]: time of a packet's head through a switch", reference=_LATENCY,
    boundary="primitive",
)  # fmt: skip
codeword = scope.declare(
    "fec.codeword, n_cw [byte]: bytes of a codeword; unless given, 680: 544 symbols of 10 bits",
    equals=number("680 byte"),
    reference=_FEC,
)
data_share = scope.declare(
    "fec.data_share, s_FEC [1 as %]: share of a codeword that is data; unless given, 514 of 544",
    equals=514 / 544,
    bounds=(0, 1),
    reference=_FEC,
)
fec_latency = scope.declare(
    "fec.latency, t_FEC [s as ns]: time of receiving a codeword, which is decoded as a whole, at every hop and the end",
    equals=(hops + 1) * codeword * _BITS / interconnect.adapter_rate,
    reference=_FEC,
    target=True,
)
payload = scope.declare(
    "packet.payload, n_pl [byte]: payload of a packet", bounds=POSITIVE, reference=_PACKET, boundary="primitive"
)
header = scope.declare(
    "packet.header, n_hd [byte]: headers and checks of a packet", reference=_PACKET, boundary="primitive"
)
packet_share = scope.declare(
    "packet.share, s_pk [1 as %]: share of a packet that is payload",
    equals=payload / (payload + header),
    bounds=(0, 1),
    reference=_PACKET,
    target=True,
)
packet_time = scope.declare(
    "packet.time, t_pk [s as ns]: time of a packet on the line",
    equals=(payload + header) * _BITS / interconnect.adapter_rate,
    reference=_LATENCY,
)
load = scope.declare(
    "load, rho_l [1 as %]: share of time in which a port is busy; unless given, none", equals=0, bounds=(0, 0.999),
    reference=_QUEUE,
)  # fmt: skip
queue_time = scope.declare(
    "queue.time, t_q [s as ns]: mean wait of a packet at a port, of packets of one size that arrive at random",
    equals=load / (2 * (1 - load)) * packet_time,
    reference=_QUEUE,
    target=True,
)
host_latency = scope.declare(
    "host.latency, t_h [s as us]: time in adapters and hosts of both ends", reference=_LATENCY, boundary="primitive"
)
latency = scope.declare(
    "latency, t_l [s as us]: time of a small message between nodes",
    equals=host_latency + flight_time + hops * (switch_latency + queue_time) + fec_latency,
    reference=_LATENCY,
    target=True,
)
in_flight = scope.declare(
    "in_flight, n_bdp [byte as kB]: bytes that fill the way: bandwidth by delay",
    equals=interconnect.adapter_rate / _BITS * latency,
    reference=_LATENCY,
    target=True,
)
scope.equation(
    interconnect.nic_latency,
    latency,
    name="nic_latency",
    meaning="hosts, fiber, switches, queues and error correction",
    reference=_LATENCY,
)
scope.equation(
    interconnect.nic_share,
    packet_share * data_share,
    name="nic_share",
    meaning="payload of packets in data of codewords",
    reference=_PACKET,
)
bit_energy = scope.declare(
    "bit_energy, e_l [J/byte as pJ/bit]: energy of a transceiver by bit and direction", reference=_SERDES,
    boundary="primitive",
)  # fmt: skip
scope.equation(
    network.transceiver_power,
    bit_energy * interconnect.adapter_rate / _BITS,
    name="transceiver_power",
    meaning="energy of a bit by the line rate",
    reference=_SERDES,
)
# Messages.
message = scope.declare(
    "message.size, n_m [byte as kB]: bytes of a message", bounds=POSITIVE, reference=_PACKET, boundary="scenario"
)
packets = scope.declare(
    "message.packets, N_p: packets of a message", equals=ceil(message / payload), reference=_PACKET, target=True
)
random_queue = scope.declare(
    "queue.random_time, t_qm [s as ns]: mean wait of a packet where sizes vary at random too",
    equals=load / (1 - load) * packet_time,
    reference=cited("Kleinrock 1975, Queueing Systems, volume 1", "sec. 3.2, M/M/1"),
    target=True,
)
message_time = scope.declare(
    "message.time, t_msg [s as us]: time of a message: its packets follow each other, only the first waits for the way",
    equals=latency + packets * packet_time / (1 - load),
    reference=_LATENCY,
    target=True,
)
message_rate = scope.declare(
    "message.rate, B_m [byte/s as GB/s]: bytes of a message by its time",
    equals=message / message_time,
    reference=by_definition("bytes over time"),
    target=True,
)
half_size = scope.declare(
    "message.half_size, n_12 [byte as kB]: bytes of a message at which half of the rate is reached",
    equals=latency * payload / packet_time,
    reference=cited("Hockney 1994, The communication challenge for MPP: Intel Paragon and Meiko CS-2", "n 1/2"),
    target=True,
)
# Errors.
bit_errors = scope.declare(
    "errors.rate, p_b: share of bits that arrive wrong, before correction", bounds=(0, 1), reference=_FEC,
    boundary="primitive",
)  # fmt: skip
symbol_errors = scope.declare(
    "errors.symbols, p_s: share of symbols of 10 bits that have a wrong bit",
    equals=1 - (1 - bit_errors) ** 10,
    bounds=(0, 1),
    reference=_FEC,
)
_SYMBOLS, _CORRECTED = 544, 15
expected = scope.declare(
    "errors.expected, l_s: wrong symbols of a codeword, on average",
    equals=_SYMBOLS * symbol_errors,
    reference=_FEC,
    target=True,
)
_first = exp(-expected)
for _k in range(1, _CORRECTED + 2):
    _first = _first * expected / _k
lost = scope.declare("errors.lost, p_w: probability that a codeword cannot be corrected", reference=_FEC, target=True)
scope.approximation(
    lost,
    # The tail above 15 wrong symbols as a geometric series: the difference of sums would round to zero.
    _first / (1 - expected / (_CORRECTED + 2)),
    name="errors.tail",
    valid=expected < _CORRECTED / 2,
    meaning="more than 15 of 544 symbols, few at a time",
    reference=_FEC,
)
resent = scope.declare(
    "errors.resent, s_r [1 as %]: share of packets that are sent again",
    equals=1 - (1 - lost) ** ((payload + header) / codeword),
    bounds=(0, 1),
    reference=_FEC,
    target=True,
)
good_share = scope.declare(
    "errors.good_share, s_g [1 as %]: payload in data of codewords, without what is sent again",
    equals=packet_share * data_share * (1 - resent),
    bounds=(0, 1),
    reference=_FEC,
    target=True,
)
