"""What the DEK of a model's value is wrapped for: bindings.md 5."""


def fitted(text):
    return text.replace("\0", "")[:128]


def row_text(columns):
    """No two rows have one text. None where there is no column, or where it would be too long."""
    escaped = [columns[name].replace("%", "%25").replace("/", "%2F").replace("\0", "%00") for name in sorted(columns, key=str.encode)]
    text = "/".join(escaped)
    return text if 0 < len(text) <= 128 else None


def uses_of(context):
    """The uses, purpose and context, that the wrapped key of a value with this context may have."""
    if "model" not in context:
        return []
    many = {"model": fitted(context["model"])}
    row = row_text({name: value for name, value in context.items() if name.startswith("row.")})
    return [("data", many)] if row is None else [("data", many), ("data", {**many, "row": row})]
