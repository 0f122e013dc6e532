from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class OperatorGetSecretValueRequest(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class OperatorGetSecretValueResponse(_message.Message):
    __slots__ = ("value", "path")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    value: str
    path: str
    def __init__(self, value: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...
