//! Writes small GGUF files.

/// A value of a key.
pub(crate) enum Value {
    /// u16.
    U16(u16),
    /// u32.
    U32(u32),
    /// A text.
    Text(&'static str),
    /// An array of texts.
    Texts(Vec<&'static str>),
    /// An array of u32.
    U32s(Vec<u32>),
    /// Any type number with any bytes.
    Raw(u32, Vec<u8>),
}

/// A file under construction.
#[derive(Default)]
pub(crate) struct Gguf {
    keys: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: u64,
}

impl Gguf {
    /// An empty file.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a key.
    pub(crate) fn key(mut self, name: &str, value: Value) -> Self {
        let mut bytes = text(name);
        let (kind, value) = match value {
            Value::U16(number) => (2, number.to_le_bytes().to_vec()),
            Value::U32(number) => (4, number.to_le_bytes().to_vec()),
            Value::Text(value) => (8, text(value)),
            Value::Texts(list) => (9, array(8, &list.iter().map(|item| text(item)).collect::<Vec<_>>())),
            Value::U32s(list) => (
                9,
                array(
                    4,
                    &list.iter().map(|item| item.to_le_bytes().to_vec()).collect::<Vec<_>>(),
                ),
            ),
            Value::Raw(kind, bytes) => (kind, bytes),
        };
        bytes.extend(u32::to_le_bytes(kind));
        bytes.extend(value);
        self.keys.push(bytes);
        self
    }

    /// Adds a tensor behind the last one.
    pub(crate) fn tensor(self, name: &str, dimensions: &[u64], kind: u32) -> Self {
        let offset = self.data.next_multiple_of(32);
        self.tensor_at(name, dimensions, kind, offset)
    }

    /// Adds a tensor at an offset.
    pub(crate) fn tensor_at(mut self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        let mut bytes = text(name);
        bytes.extend(u32::try_from(dimensions.len()).unwrap().to_le_bytes());
        bytes.extend(dimensions.iter().flat_map(|side| side.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        let elements = dimensions
            .iter()
            .fold(1_u64, |product, side| product.saturating_mul(*side));
        let size = match kind {
            0 => elements.saturating_mul(4),
            3 => elements / 32 * 20,
            8 => elements / 32 * 34,
            _ => 0,
        };
        self.data = self.data.max(offset.saturating_add(size));
        self
    }

    /// The whole file; data of more than a mebibyte is left out.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        bytes.extend(self.keys.iter().flatten());
        bytes.extend(self.tensors.iter().flatten());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let data = usize::try_from(self.data).unwrap().min(1 << 20);
        bytes.resize(bytes.len() + data, 0);
        bytes
    }
}

fn text(text: &str) -> Vec<u8> {
    [(text.len() as u64).to_le_bytes().as_slice(), text.as_bytes()].concat()
}

fn array(kind: u32, items: &[Vec<u8>]) -> Vec<u8> {
    [
        kind.to_le_bytes().as_slice(),
        &(items.len() as u64).to_le_bytes(),
        &items.concat(),
    ]
    .concat()
}
