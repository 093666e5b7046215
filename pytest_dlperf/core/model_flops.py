"""Operations of a transformer for a token, by the conventions that people report MFU in."""

from __future__ import annotations


def transformer_flops(
    parameters: int,
    *,
    layers: int,
    attention_width: int,
    sequence: int,
    embedding: int = 0,
    causal: bool = False,
) -> int:
    """Return the floating-point operations of one token, forward and backward.

    ``6 (parameters - embedding) + 12 layers attention_width sequence``, where ``attention_width``
    is the heads of a layer times the width of a head. With ``embedding=0`` it is the convention of
    PaLM (arXiv 2204.02311, appendix B); with the parameters of the embedding, which is looked up
    and not multiplied, that of torchtitan (``get_dense_model_nparams_and_flops``). Both count all
    of the attention; ``causal`` counts half of it, as maxtext does. What is computed again in the
    backward pass does not count. Raises ``ValueError`` for a number below 0.
    """
    sizes = (parameters, layers, attention_width, sequence, embedding)
    if min(sizes) < 0 or embedding > parameters:
        raise ValueError(f"transformer_flops: no model has the sizes {sizes}")
    attention = 12 * layers * attention_width * sequence
    return 6 * (parameters - embedding) + (attention // 2 if causal else attention)
