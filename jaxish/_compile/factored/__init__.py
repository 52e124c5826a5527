"""Large batched products kept in factors: per-example gradients that are never made.

The gradient of a dense layer's weights for one example is an outer product, and for a sequence a sum of such. What
programs do with gradients of single examples mostly is to take their norms, scale them and add them up, all of which
can be had from the factors (Goodfellow, arXiv 1510.01799; Bu et al., arXiv 2210.00038). The pass (`rewriting.py`) finds
such products in any graph, follows them through what is linear (`rules.py`, `terms.py`), and where they are summed
contracts the factors instead (`contraction.py`), if that is less work.
"""
