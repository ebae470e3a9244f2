"""Whether a model writes text: by the class that its publisher names, not by what a library could build of it.

A library builds a language head for any encoder and draws it at random where the checkpoint has none; what is measured then
is the head that was drawn.
"""

WITHOUT = ("ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
           "ForMultipleChoice", "ForNextSentencePrediction", "ForTextEncoding", "ForSentenceEmbedding")  # fmt: skip
"""Endings of classes with another head, or none, on the hidden states."""
WITH = ("LMHeadModel", "DoubleHeadsModel", "ChatGLMModel")
"""Classes that end in Model and write text all the same."""


def writes_text(architecture: str | None, *, causal: bool = True) -> bool:
    """Whether the named class has a language head; one that is not named is taken to have one where its attention is causal."""
    if architecture is None:
        return causal
    if architecture.endswith(WITH):
        return True
    return not architecture.endswith(("Model", *WITHOUT))


def without_head(architecture: str | None) -> str:
    """The sentence that says so."""
    return f"{architecture or 'this encoder'} has no language head: it gives embeddings and writes no text"
