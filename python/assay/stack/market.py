"""The market of GPUs: prices that clear it, rents that fall, and whether a machine pays.

What is made in a year meets what is wanted at a price; the seller asks the price at which both agree. Rents then fall
as better machines arrive, and with them what a machine is worth. Whether to buy is a sum of discounted years, whether
to reserve a share of hours.
"""

from __future__ import annotations

import math

from assay.model import ANY_SIGN, POSITIVE, Scope, Symbol, Variable, by_definition, cited, log, maximum, number
from assay.stack.econ import capital, deployment, rates as econ_rates
from assay.stack.manufacturing import packages

scope = Scope("market", "Prices, rents, depreciation and investment")

_DEMAND = cited("Varian 2014, Intermediate Microeconomics, 9th edition", "ch. 15 and 16, elasticity and equilibrium")
_DECLINE = cited(
    "Cottier et al. 2024, The Rising Costs of Training Frontier AI Models", "appendix, depreciation of chips"
)
_ANNUITY = cited(
    "Newnan, Eschenbach and Lavelle, Engineering Economic Analysis, 9th edition 2004",
    "present worth and rate of return",
)
_RESERVE = cited("Weinman 2012, Cloudonomics", "ch. 10, pay per use against reserved resources")
_REBOUND = cited("Sorrell 2009, Jevons' Paradox revisited, Energy Policy 37(4)", "rebound by elasticity")
_REPLACE = cited(
    "Newnan, Eschenbach and Lavelle, Engineering Economic Analysis, 9th edition 2004", "ch. 13, replacement analysis"
)


def _choice(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_DEMAND, boundary="scenario")


# A price that clears the market.
known_price = _choice("known.price, p_0 [USD/GPU]: a price at which demand is known")
known_demand = _choice("known.demand, q_0 [GPU/s as GPU/day]: GPUs that are wanted at that price, by time")
elasticity = _choice("elasticity, e_p: relative fall of demand by relative rise of the price")
clearing = scope.declare(
    "clearing.price, p_x [USD/GPU]: price at which as many are wanted as are made", bounds=POSITIVE,
    reference=_DEMAND, target=True,
)  # fmt: skip
_wanted = known_demand * (clearing / known_price) ** (-elasticity)
scope.iterative(
    clearing,
    # A price that follows excess demand; the root damps it, so that it settles for every elasticity.
    clearing * (_wanted / packages.gpu_rate) ** (1 / (1 + elasticity)),
    start=known_price,
    name="clearing.tatonnement",
    meaning="the price rises where more are wanted than made",
    reference=_DEMAND,
)
wanted = scope.declare(
    "clearing.demand, q_x [GPU/s as GPU/day]: GPUs that are wanted at that price, by time",
    equals=known_demand * (clearing / known_price) ** (-elasticity),
    reference=_DEMAND,
    target=True,
)
scope.approximation(
    capital.gpu_price,
    maximum(clearing, packages.gpu_cost),
    name="price_of_market",
    valid=elasticity > 0,
    meaning="what clears the market, but no less than the cost",
    reference=_DEMAND,
)
margin = scope.declare(
    "clearing.margin, m_x [1 as %]: gross margin at that price",
    equals=1 - packages.gpu_cost / clearing,
    bounds=(None, 1),
    reference=by_definition("price less cost, over price"),
    target=True,
)
monopoly = scope.declare(
    "monopoly.price, p_m [USD/GPU]: price of a single seller with no limit on what is made", reference=_DEMAND,
    target=True,
)  # fmt: skip
scope.approximation(
    monopoly,
    packages.gpu_cost * elasticity / (elasticity - 1),
    name="monopoly.lerner",
    valid=elasticity > 1,
    meaning="margin is the inverse of the elasticity",
    reference=_DEMAND,
)
# Decline.
age = scope.declare("age, t_a [s as year]: time since a GPU was new", reference=_DECLINE, boundary="scenario")
halving = scope.declare(
    "rent.halving, t_h [s as year]: time in which the rent of a GPU halves", bounds=POSITIVE, reference=_DECLINE,
    boundary="scenario",
)  # fmt: skip
new_rent = scope.declare(
    "rent.new, r_0 [USD/(s*GPU) as USD/(h*GPU)]: rent of a GPU when it was new", bounds=POSITIVE, reference=_DECLINE,
    boundary="scenario",
)  # fmt: skip
rent_now = scope.declare(
    "rent.now, r_t [USD/(s*GPU) as USD/(h*GPU)]: rent of a GPU of this age", reference=_DECLINE, target=True
)
scope.differential(
    rent_now,
    -math.log(2) / halving * rent_now,
    time=Symbol("t"),
    time_like=age,
    initial=new_rent,
    start=number("0 s"),
    end=age,
    name="rent.decline",
    meaning="falls in proportion to itself",
    reference=_DECLINE,
)
scope.equation(econ_rates.rent, rent_now, name="rent_by_age", meaning="that of a GPU of this age", reference=_DECLINE)
rent_mean = scope.declare(
    "rent.mean, r_m [USD/(s*GPU) as USD/(h*GPU)]: rent of a GPU, mean over its life",
    equals=new_rent
    * halving
    / (math.log(2) * capital.machine_lifetime)
    * (1 - 2 ** (-capital.machine_lifetime / halving)),
    reference=_DECLINE,
    target=True,
)
yearly_loss = scope.declare(
    "worth.yearly_loss, d_y [1 as %]: share of its worth that a machine loses in a year", bounds=(0, 1),
    reference=_DECLINE, boundary="scenario",
)  # fmt: skip
scope.equation(
    capital.machine_residual,
    (1 - yearly_loss) ** (capital.machine_lifetime / capital.year),
    name="residual_by_year",
    meaning="a share of the worth is lost each year",
    reference=_DECLINE,
)
# Investment.
_upkeep = econ_rates.maintenance_share * capital.gpu_price / capital.year
income = scope.declare(
    "income, y_i [USD/(s*GPU) as USD/(year*GPU)]: income of a GPU: its mean rent for the time it is used, less power "
    "and upkeep",
    equals=rent_mean * econ_rates.utilisation - econ_rates.gpu_power_rate - _upkeep,
    bounds=ANY_SIGN,
    reference=_ANNUITY,
    target=True,
)
_years = capital.machine_lifetime / capital.year
discount = scope.declare(
    "discount, v_n: worth today of a dollar at the end of a machine's life",
    equals=(1 + capital.interest) ** (-_years),
    reference=_ANNUITY,
    target=True,
)
worth_of_years = scope.declare(
    "worth.of_years, a_n [s as year]: years of income that all years of a machine's life are worth today",
    equals=(1 - discount) / capital.interest * capital.year,
    reference=_ANNUITY,
    target=True,
)
present_worth = scope.declare(
    "worth.present, NPV [USD/GPU]: worth today of buying a GPU: income, and what it sells for, less its price",
    equals=income * worth_of_years + capital.machine_residual * capital.gpu_price * discount - capital.gpu_price,
    bounds=ANY_SIGN,
    reference=_ANNUITY,
    target=True,
)
payback = scope.declare(
    "payback, t_p [s as year]: time in which income returns the price",
    equals=capital.gpu_price / income,
    bounds=ANY_SIGN,
    reference=_ANNUITY,
    target=True,
)
earned = scope.declare(
    "earned.rate, i_r [1 as %]: yearly rate at which the income of a machine's life is worth its price",
    bounds=ANY_SIGN,
    reference=_ANNUITY,
    target=True,
)
_yearly = income * capital.year / capital.gpu_price
scope.iterative(
    earned,
    _yearly * (1 - (1 + earned) ** (-_years)),
    start=_yearly,
    name="earned.fixed_point",
    meaning="internal rate of return of even income",
    reference=_ANNUITY,
)
# Reserving, and replacing.
reserved_discount = _choice("reserve.discount, d_r [1 as %]: discount of reserved hours over those on demand", (0, 1))
reserve_share = scope.declare(
    "reserve.share, u_r [1 as %]: use above which reserved hours are cheaper than those on demand",
    equals=1 - reserved_discount,
    bounds=(0, 1),
    reference=_RESERVE,
    target=True,
)
demand_rent = scope.declare(
    "reserve.demand_rent, r_d [USD/(s*GPU) as USD/(h*GPU)]: rent of a GPU on demand", bounds=POSITIVE,
    reference=_RESERVE, boundary="scenario",
)  # fmt: skip
scope.equation(
    econ_rates.rent,
    demand_rent * (1 - reserved_discount),
    name="rent_of_reserved",
    meaning="reserved hours, at their discount",
    reference=_RESERVE,
)
own_share = scope.declare(
    "own.share, u_o [1 as %]: use above which owning is cheaper than renting",
    equals=(econ_rates.gpu_ownership_rate * econ_rates.utilisation + econ_rates.gpu_power_rate) / econ_rates.rent,
    reference=_RESERVE,
    target=True,
)
improvement = scope.declare(
    "improvement, g_p [1 as %]: yearly rise of tokens by dollar of new machines", bounds=POSITIVE, reference=_REPLACE,
    boundary="scenario",
)  # fmt: skip
running_share = scope.declare(
    "running.share, s_o [1 as %]: cost of running a machine over all that it costs",
    equals=(econ_rates.gpu_power_rate + _upkeep)
    / (econ_rates.gpu_ownership_rate * econ_rates.utilisation + econ_rates.gpu_power_rate),
    bounds=("positive", None),
    reference=_REPLACE,
    target=True,
)
replacement = scope.declare(
    "replacement.age, t_r [s as year]: age at which running a machine costs as much by token as a new one in all",
    equals=-log(running_share) / log(1 + improvement) * capital.year,
    bounds=ANY_SIGN,
    reference=_REPLACE,
    target=True,
)
token_elasticity = _choice("tokens.elasticity, e_t: relative rise of tokens by relative fall of their cost")
known_cost = _choice("tokens.known_cost, c_0 [USD/token]: cost of an output token at which spending is known")
rebound = scope.declare(
    "tokens.rebound, k_r: spending on tokens at their cost now, over that at the known one",
    equals=(deployment.cost_per_output_token / known_cost) ** (1 - token_elasticity),
    reference=_REBOUND,
    target=True,
)
token_price = scope.declare(
    "tokens.markup, k_m: rent of a GPU over what it costs to own, as a markup on output tokens",
    equals=econ_rates.rent / (econ_rates.gpu_ownership_rate + econ_rates.gpu_power_rate),
    reference=by_definition("rent over cost"),
    target=True,
)
token_cost = scope.declare(
    "tokens.rented_cost, c_r [USD/token]: cost of an output token at the rent of a GPU of this age",
    equals=deployment.cost_per_output_token * rent_now / econ_rates.rent,
    reference=_DECLINE,
    target=True,
)
