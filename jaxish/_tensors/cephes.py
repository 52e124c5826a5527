"""The inverse of the normal distribution function, Dawson's integral, the exponential, sine and cosine integrals, Spence's function and Fresnel's integrals.

The rational approximations, and the intervals on which they hold, are those of S. L. Moshier's Cephes Mathematical
Library (1984-2000; ndtri.c, dawsn.c, ei.c, sici.c, spence.c, fresnl.c; Methods and Programs for Mathematical Functions, 1989),
which SciPy uses, too. Every element goes through all intervals, none through a branch.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Rational(NamedTuple):
    """A quotient of two polynomials, given by their coefficients, the highest power first."""

    numerator: tuple[float, ...]
    denominator: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the quotient at x."""
        return _polynomial(x, self.numerator) / _polynomial(x, self.denominator)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = torch.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total = total * x + c
    return total


_DAWSN_A = Rational(
    (1.1368149897175597e-11, 8.492622676674738e-10, 1.9443420417555306e-08, 9.531517412544844e-07,
     3.078283098749132e-06, 0.00035251336852028877, -0.0008501498467244109, 0.04226182230055466,
     -0.09174803717734524, 1.0),
    (2.403720730667626e-11, 1.488646813684934e-09, 5.212652810105416e-08, 1.2725847827318697e-06,
     2.324902498207895e-05, 0.00032552474182605793, 0.003488058146571626, 0.027944853119882897,
     0.15887424196012057, 0.5749186294893204, 1.0),
)  # fmt: skip
_DAWSN_B = Rational(
    (0.5089551564179009, -0.24475441814269785, 0.09415123353035344, -0.021871125514203903, 0.003662076123295692,
     -0.0004232091144603888, 3.5964130479389666e-05, -2.1464035171996896e-06, 9.100107800763914e-08,
     -2.4027452082825098e-09, 3.592333854409284e-11),
    (1.0, -0.6318398698733682, 0.2367067882282487, -0.053180636700322324, 0.008480417185862954,
     -0.0009479967684866654, 7.810255929445524e-05, -4.558751532524426e-06, 1.8910035811142186e-07,
     -4.913246913319206e-09, 7.184664032357345e-11),
)  # fmt: skip
_DAWSN_C = Rational(
    (-0.5905928605347732, 0.6292352427243688, -0.17285897538038814, 0.016483704782518965, -0.0004868276130204627),
    (1.0, -2.698200571975449, 1.7327079904594784, -0.3937085822819395, 0.03442789240412334,
     -0.0009736552260409412),
)  # fmt: skip
_EI_1 = Rational(
    (-5.350447357812543, 218.50491688166133, -4176.572384826693, 55411.76756393557, -331338.13311781443,
     1592627.1633849454),
    (1.0, -52.505479591128626, 1259.6161867867906, -17565.495819735348, 149306.2117002726, -729494.9239640528,
     1592627.1633849454),
)  # fmt: skip
_EI_2 = Rational(
    (0.019818085032596897, -1.2716456259849176, -2.0881603356812284, 2.7555445091879367, -0.44095070487016,
     0.046656238059358916, -0.0015450426796734852, 7.059980605299618e-05),
    (1.0, 1.4764986709149215, 0.5629177174822436, 0.16990178978793072, 0.02291647179034212,
     0.0044501504397287525, 0.00017274396122065214, 3.953167195549672e-05),
)  # fmt: skip
_EI_3 = Rational(
    (-1.3732153758712087, -0.7084559133740839, 1.580806855547941, -0.2601500427425623, 0.029946746941137137,
     -0.001038086040188744, 4.371064420753005e-05, 2.141783679522603e-06),
    (1.0, 0.8585231423622028, 0.4483285822873995, 0.07687932158124476, 0.024498682410218877,
     0.0008832165941927797, 0.00045909522995113536, -4.729848351866523e-06, 2.66519553739071e-06),
)  # fmt: skip
_EI_4 = Rational(
    (-2.1069346016919166, 1.7327338696646881, -0.2423619178935842, 0.02322724180937566, 0.00023728804404931798,
     -8.343219561192553e-05, 1.3634087956052505e-05, -3.655412321999254e-07, 1.4649417339759612e-08,
     6.17640786371036e-10),
    (1.0, -0.2298062239901678, 0.11050770414740378, -0.015665429666307924, 0.002761106850817353,
     -0.00020891480122840484, 1.7085289388076754e-05, -4.4593117963566865e-07, 1.3946349303538475e-08,
     6.150865933977338e-10),
)  # fmt: skip
_EI_5 = Rational(
    (-0.24581193676740204, -0.14833822533220778, 0.07248291795735552, -0.013483156873809405,
     0.001342775069788637, -7.942465637159712e-05, 2.644179518984236e-06, -4.239473659313765e-08),
    (1.0, -0.10442259084438711, -0.26764531281014026, 0.09695000254621984, -0.01601745692712991,
     0.001496414899205908, -8.462452563778485e-05, 2.7289384034767266e-06, -4.239462431819542e-08),
)  # fmt: skip
_EI_6 = Rational(
    (0.12125611181054567, -0.5823133179043894, 0.2348887314557017, -0.030400343181132484, 0.0015100821468651906,
     -2.5231370954995714e-05),
    (1.0, -1.002252150365854, 0.2928709694872224, -0.03337004338674008, 0.0015605448811273888,
     -2.5231370936032347e-05),
)  # fmt: skip
_EI_7 = Rational(
    (-0.7657847078286127, 0.6886192415566705, -0.2132598113545206, 0.033461075523841935, -0.003076541477344756,
     0.00017471193164549074, -6.1037116822741705e-06, 1.218032765428652e-07, -1.0860761027932903e-09),
    (1.0, -1.8888028686623086, 1.066691687211409, -0.27519159823063805, 0.039308526882338234,
     -0.003414684558602365, 0.00018668443707035555, -6.345146083130515e-06, 1.239754287483207e-07,
     -1.0860761027931265e-09),
)  # fmt: skip
_SI = Rational(
    (-8.391678279103039e-11, 4.625917144270128e-08, -9.757593038436328e-06, 0.0009769454381704354,
     -0.04134703162294066, 1.0),
    (2.0326926619595193e-12, 1.279978911799433e-09, 4.418278428012189e-07, 9.964121220438756e-05,
     0.01420852393261499, 1.0),
)  # fmt: skip
_CI = Rational(
    (2.0252400238910228e-11, -1.3524950491579076e-08, 3.593250514199931e-06, -0.0004740072068734079,
     0.028915965260755523, -1.0),
    (4.077460400618806e-12, 3.067809975818878e-09, 1.2321035568588342e-06, 0.00031744202477503275,
     0.051002805623644606, 4.0),
)  # fmt: skip
_F4 = Rational(
    (4.236128628922166, 5.4593771716181285, 1.6208328770153833, 0.16700661183132304, 0.006810201324725182,
     0.00010893658065032867, 5.489002234213736e-07),
    (1.0, 8.16496634205391, 7.308288225055645, 1.867922579501842, 0.1787920529631499, 0.007017106683227897,
     0.00011003435715391573, 5.489002527562557e-07),
)  # fmt: skip
_G4 = Rational(
    (0.08710016989731142, 0.6113791099522193, 0.3971802963923375, 0.07485277376284691, 0.005388686814621773,
     0.00016199979459893403, 1.9796387414096365e-06, 7.825790407440903e-09),
    (1.0, 1.6440220241335535, 0.666296701268988, 0.09887717612776888, 0.006223963454417684,
     0.0001732210814741771, 2.0265918208634397e-06, 7.825792189335346e-09),
)  # fmt: skip
_F8 = Rational(
    (0.4558808734704653, 0.7137152741001467, 0.16030015822231947, 0.01160642294081244, 0.00034955644244785906,
     4.8621543082645475e-06, 3.200927900910049e-08, 9.41779576128513e-11, 9.70507110881952e-14),
    (1.0, 0.9174636118736841, 0.17868554533207454, 0.012225359477197129, 0.00035869648188185157,
     4.924350643178815e-06, 3.21956939101046e-08, 9.437205903502767e-11, 9.70507110881952e-14),
)  # fmt: skip
_G8 = Rational(
    (0.6973599534432762, 0.33041097930563207, 0.03848787676499743, 0.001717182390523479, 3.4894116550227946e-05,
     3.471311670841167e-07, 1.7040445278204452e-09, 3.859459254302766e-12, 3.1404009894636335e-15),
    (1.0, 1.6854889881101165, 0.48785225869530496, 0.04679131942596258, 0.0019028442667439953,
     3.684755044425611e-05, 3.5704322344374083e-07, 1.7269374896631615e-09, 3.878301660239547e-12,
     3.1404009894636335e-15),
)  # fmt: skip
_SPENCE = Rational(
    (4.6512858607399003e-05, 0.007315890452380947, 0.13384763957830903, 0.8796913117545303, 2.7114985119655346,
     4.256971560081218, 3.297713409852251, 1.0),
    (0.0006909904889125533, 0.02540437639325444, 0.2829748606025681, 1.4117259775183106, 3.6380053334513707,
     5.03278880143317, 3.547713409852251, 1.0),
)  # fmt: skip
_FRESNEL_S = Rational(
    (-2991.8191940101983, 708840.0452577386, -62974148.62058625, 2548908805.7337637, -44297951805.96978,
     318016297876.5678),
    (1.0, 281.3762688899943, 45584.78108065326, 5173438.887700964, 419320245.8981112, 22441179564.534092,
     607366389490.0846),
)  # fmt: skip
_FRESNEL_C = Rational(
    (-4.9884311457357354e-08, 9.504280628298596e-06, -0.0006451914356839651, 0.018884331939670384,
     -0.20552590095501388, 1.0),
    (3.99982968972496e-12, 9.154392157746574e-10, 1.2500186247959882e-07, 1.2226278902417902e-05,
     0.0008680295429417843, 0.04121420907221998, 1.0),
)  # fmt: skip
_FRESNEL_F = Rational(
    (0.4215435550436775, 0.1434079197807589, 0.011522095507358577, 0.000345017939782574, 4.6361374928786735e-06,
     3.055689837902576e-08, 1.0230451416490724e-10, 1.7201074326816183e-13, 1.3428327623306275e-16,
     3.763297112699879e-20),
    (1.0, 0.7515863983533789, 0.11688892585919138, 0.0064405152650885865, 0.00015593440916415301,
     1.8462756734893055e-06, 1.1269922476399903e-08, 3.6014002958937136e-11, 5.887545336215784e-14,
     4.5200143407412973e-17, 1.2544323709001127e-20),
)  # fmt: skip
_FRESNEL_G = Rational(
    (0.5044420736433832, 0.1971028335255234, 0.018764858409257526, 0.0006840793809153931, 1.1513882611188428e-05,
     9.828524436884223e-08, 4.4534441586175015e-10, 1.0826804113902088e-12, 1.375554606332618e-15,
     8.363544356306774e-19, 1.8695871016278324e-22),
    (1.0, 1.4749575992512833, 0.33774898912002, 0.02536037414203388, 0.0008146791071843061,
     1.2754507566772912e-05, 1.0431458965757199e-07, 4.6068072814652043e-10, 1.1027321506624028e-12,
     1.3879653125957886e-15, 8.391588162831187e-19, 1.8695871016278324e-22),
)  # fmt: skip


_NDTRI_0 = Rational(
    (-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125),
    (1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937, 200.26021238006066,
     -82.03722561683334, 15.90562251262117, -1.1833162112133),
)  # fmt: skip
_NDTRI_1 = Rational(
    (4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
     2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854),
    (1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
     -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574),
)  # fmt: skip
_NDTRI_2 = Rational(
    (3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
     0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09),
    (1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663, 0.013420400608854318,
     0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09),
)  # fmt: skip


def inverse_normal(p: Tensor) -> Tensor:
    """Return the x at which the normal distribution function is p: infinite at 0 and 1, NaN beyond."""
    upper = p > -math.expm1(-2)
    part = torch.where(upper, 1 - p, p)
    is_inner = part > math.exp(-2)
    y = torch.where(is_inner, part, 0.5) - 0.5
    square = y * y
    inner = (y + y * square * _NDTRI_0(square)) * math.sqrt(2 * math.pi)
    z = torch.sqrt(-2 * torch.log(torch.where(is_inner | (part == 0), 0.1, part)))
    w = 1 / z
    tail = torch.log(z) / z - z + w * torch.where(z < 8, _NDTRI_1(w), _NDTRI_2(w))
    found = torch.where(part == 0, -math.inf, torch.where(is_inner, inner, tail))
    return torch.where(upper, -found, found)


def dawson(x: Tensor) -> Tensor:
    """Return exp(-x²) times the integral of exp(t²) from 0 to x."""
    size = x.abs()
    square = size * size
    near, middle = size < 3.25, size < 6.25
    t = 1 / torch.where(near, 1.0, square)
    tail = 0.5 / size * (1 + t * torch.where(middle, _DAWSN_B(t), _DAWSN_C(t)))
    return torch.sign(x) * torch.where(near, size * _DAWSN_A(torch.where(near, square, 1.0)), tail)


# The upper ends of the intervals, and the approximations in 1/x on them.
_EI_PIECES = ((4.0, _EI_2), (8.0, _EI_3), (16.0, _EI_4), (32.0, _EI_5), (64.0, _EI_6), (math.inf, _EI_7))


def exponential_integral(x: Tensor) -> Tensor:
    """Return Ei(x) for x >= 0: the principal value of the integral of exp(t)/t from minus infinity to x."""
    near = x <= 2
    w = 1 / torch.where(near, 1.0, x)
    tail = w * 0
    for end, piece in reversed(_EI_PIECES):
        tail = torch.where(x <= end, piece(w), tail)
    limit = math.log(torch.finfo(x.dtype).max) - 1  # exp(x) / x is finite a little beyond
    far = torch.exp(x.clamp(max=limit)) * w * (1 + w * tail) * torch.exp((x - limit).clamp(min=0))
    small = torch.where(near, x, 1.0)
    found = torch.where(near, small * _EI_1(small) + _EULER + torch.log(small), far)
    return torch.where(torch.isposinf(x), math.inf, found)


_EULER = 0.57721566490153286


def _sine_cosine_auxiliaries(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return f and g with Si(x) = π/2 - f cos x - g sin x and Ci(x) = f sin x - g cos x, for x > 4."""
    z = 1 / (x * x)
    near = x < 8
    return torch.where(near, _F4(z), _F8(z)) / x, z * torch.where(near, _G4(z), _G8(z))


def sine_integral(x: Tensor) -> Tensor:
    """Return the integral of sin(t)/t from 0 to x."""
    size = x.abs()
    near = size <= 4
    small, large = torch.where(near, size, 1.0), torch.where(near, 5.0, size)
    f, g = _sine_cosine_auxiliaries(large)
    tail = math.pi / 2 - torch.where(torch.isinf(x), 0.0, f * torch.cos(large) + g * torch.sin(large))
    return torch.sign(x) * torch.where(near, small * _SI(small * small), tail)


def cosine_integral(x: Tensor) -> Tensor:
    """Return γ + log|x| + the integral of (cos(t) - 1)/t from 0 to |x|; NaN at minus infinity."""
    size = x.abs()
    near = size <= 4
    small, large = torch.where(near, size, 1.0), torch.where(near, 5.0, size)
    f, g = _sine_cosine_auxiliaries(large)
    tail = torch.where(torch.isinf(x), 0.0, f * torch.sin(large) - g * torch.cos(large))
    square = small * small
    found = torch.where(near, _EULER + torch.log(small) + square * _CI(square), tail)
    return torch.where(torch.isneginf(x), math.nan, found)


def spence(x: Tensor) -> Tensor:
    """Return the integral of log(t)/(1 - t) from 1 to x, the dilogarithm of 1 - x; NaN for x < 0."""
    inverted = x > 2
    y = torch.where(inverted, 1 / x, x)
    high, low = y > 1.5, y < 0.5
    w = torch.where(high, 1 / y - 1, torch.where(low, -y, y - 1))
    found = -w * _SPENCE(w)
    inner = torch.where(low & (y > 0), y, 0.25)
    reflected = math.pi**2 / 6 - torch.log(inner) * torch.log1p(-inner) - found
    found = torch.where(low, torch.where(y == 0, math.pi**2 / 6, reflected), found)
    found = torch.where(inverted | high, -0.5 * torch.log(y) ** 2 - found, found)
    return torch.where(x < 0, math.nan, found)


def sine_cosine_of_square(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return sin(πx²/2) and cos(πx²/2), the angle reduced before it is rounded."""
    size = torch.where(torch.isinf(x), 0.0, x).abs()
    rest = torch.fmod(size, 2.0)
    turn = torch.fmod(rest * (size - rest / 2), 2.0)  # x²/2 modulo 2
    quarter = torch.round(2 * turn)
    angle = math.pi * (turn - quarter / 2)
    sine, cosine = torch.sin(angle), torch.cos(angle)
    odd, flipped = torch.remainder(quarter, 2) == 1, torch.remainder(quarter, 4) >= 2
    s, c = torch.where(odd, cosine, sine), torch.where(odd, -sine, cosine)
    return torch.where(flipped, -s, s), torch.where(flipped, -c, c)


def _fresnel(x: Tensor, near: Rational, power: int, is_sine: bool) -> Tensor:
    size = x.abs()
    square = size * size
    is_near = square < 2.5625
    small = torch.where(is_near, size, 1.0)
    around_zero = small**power * near(small**4)
    t = math.pi * torch.where(is_near, 4.0, square)
    u = 1 / (t * t)
    f, g = 1 - u * _FRESNEL_F(u), _FRESNEL_G(u) / t
    sine, cosine = sine_cosine_of_square(size)
    wave = -(f * cosine + g * sine) if is_sine else f * sine - g * cosine
    tail = 0.5 + torch.where(torch.isinf(x), 0.0, wave / (math.pi * size))
    return torch.sign(x) * torch.where(is_near, around_zero, tail)


def fresnel_sine(x: Tensor) -> Tensor:
    """Return the integral of sin(πt²/2) from 0 to x."""
    return _fresnel(x, _FRESNEL_S, 3, is_sine=True)


def fresnel_cosine(x: Tensor) -> Tensor:
    """Return the integral of cos(πt²/2) from 0 to x."""
    return _fresnel(x, _FRESNEL_C, 1, is_sine=False)
