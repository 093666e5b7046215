"""Llama 3 in plain Paddle: the model of ``torch_model.py``, its parts under the same names."""

from __future__ import annotations

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.nn import functional as F

from .recipe import Size

_INITIAL_SD = 0.02
_EPSILON = 1e-5


def dense(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer without bias, whose weights come from a normal distribution."""
    first = nn.initializer.Normal(std=_INITIAL_SD)
    return nn.Linear(inputs, outputs, weight_attr=first, bias_attr=False)


class RMSNorm(nn.Layer):  # type: ignore[misc]  # paddle is Any here
    """RMSNorm over the last axis, in float32; written out, so that any Paddle 3 has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        ones = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([width], default_initializer=ones)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return ``x`` over the root of its mean square, times the weight."""
        wide = x.astype("float32")
        root = paddle.rsqrt(wide.square().mean(-1, keepdim=True) + _EPSILON)
        return (wide * root).astype(x.dtype) * self.weight.astype(x.dtype)


class Attention(nn.Layer):  # type: ignore[misc]
    """Causal self-attention, whose keys and values have fewer heads than its queries."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head = size.width // size.heads
        self.shared = size.heads // size.kv_heads
        self.queries = dense(size.width, size.heads * self.head)
        self.keys = dense(size.width, size.kv_heads * self.head)
        self.values = dense(size.width, size.kv_heads * self.head)
        self.out = dense(size.heads * self.head, size.width)

    def forward(
        self, x: paddle.Tensor, cosine: paddle.Tensor, sine: paddle.Tensor
    ) -> paddle.Tensor:
        """Return what each token gathers from itself and those before it."""
        q, k, v = (
            part(x).reshape([0, 0, -1, self.head])
            for part in (self.queries, self.keys, self.values)
        )
        q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        k, v = (shared_heads(part, self.shared) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, training=self.training)
        return self.out(mixed.flatten(2))


class FeedForward(nn.Layer):  # type: ignore[misc]
    """SwiGLU: a gated network of two layers."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = dense(size.width, size.hidden)
        self.up = dense(size.width, size.hidden)
        self.down = dense(size.hidden, size.width)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return ``down(silu(gate(x)) * up(x))``."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Layer):  # type: ignore[misc]
    """Attention and the feed-forward network, each after a norm and added to its input."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(size.width)
        self.attention = Attention(size)
        self.feed_forward_norm = RMSNorm(size.width)
        self.feed_forward = FeedForward(size)

    def forward(
        self, x: paddle.Tensor, cosine: paddle.Tensor, sine: paddle.Tensor
    ) -> paddle.Tensor:
        """Return the block's output, of the shape of ``x``: batch, tokens, width."""
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Layer):  # type: ignore[misc]
    """The whole model; ``recompute``: blocks compute their activations again in backward."""

    def __init__(self, size: Size, *, recompute: bool = False) -> None:
        super().__init__()
        self.size, self.recompute = size, recompute
        first = nn.initializer.Normal(std=_INITIAL_SD)
        self.embedding = nn.Embedding(size.vocabulary, size.width, weight_attr=first)
        self.blocks = nn.LayerList([Block(size) for _ in range(size.layers)])
        self.norm = RMSNorm(size.width)
        self.head = dense(size.width, size.vocabulary)

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """Return the logits of each next token: batch, tokens, vocabulary."""
        x = self.embedding(tokens)
        cosine, sine = angles_of(self.size, tokens.shape[1])
        for block in self.blocks:
            x = recomputed(block, x, cosine, sine) if self.recompute else block(x, cosine, sine)
        return self.head(self.norm(x))


def recomputed(block: Block, *given: paddle.Tensor) -> paddle.Tensor:
    """Return the output of ``block``, which computes its activations again in the backward.

    Not in Paddle's default way, a backward within the backward: in it a parameter is ready twice
    for DataParallel, which raises. Nothing here draws random numbers, so no state is kept.
    """
    return recompute(block, *given, use_reentrant=False, preserve_rng_state=False)


def shared_heads(x: paddle.Tensor, count: int) -> paddle.Tensor:
    """Return each head of ``x`` ``count`` times, one after the other.

    Paddle's ``repeat_interleave`` has no float16 on GPUs.
    """
    batch, tokens, heads, channels = x.shape
    return x.unsqueeze(3).expand([batch, tokens, heads, count, channels]).flatten(2, 3)


def angles_of(size: Size, tokens: int) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Return cosine and sine of the rotation, of shape (tokens, 1, half of a head)."""
    head = size.width // size.heads
    turns = size.rope_base ** (-paddle.arange(0, head, 2, dtype="float32") / head)
    angles = paddle.outer(paddle.arange(tokens, dtype="float32"), turns).unsqueeze(1)
    return angles.cos(), angles.sin()


def rotated(x: paddle.Tensor, cosine: paddle.Tensor, sine: paddle.Tensor) -> paddle.Tensor:
    """Return ``x`` with each pair of channels (i, i + half) turned by its position's angle.

    Its shape is batch, tokens, heads, channels.
    """
    cosine, sine = cosine.astype(x.dtype), sine.astype(x.dtype)
    first, second = x.chunk(2, axis=-1)
    return paddle.concat((first * cosine - second * sine, second * cosine + first * sine), axis=-1)
