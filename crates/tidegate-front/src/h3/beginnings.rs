//! The field lines that most heads begin with, encoded once for all responses that have the same fields.
//!
//! Without a dynamic table the lines of a section depend on the fields alone. So what is kept here is found by comparing
//! the fields themselves: a wrong line cannot be found, whatever was kept before.

use tidegate_fields::{FieldEncoder, Fields};

use crate::serve::streams::FirstFields;

/// Beginnings that a thread keeps: the content types that a site has at once.
const KEPT: usize = 4;
/// Bytes of one; longer ones are not kept.
const BYTES_MAX: usize = 256;

/// The beginnings of a thread's responses.
#[derive(Debug, Default)]
pub(super) struct Beginnings {
    kept: [Beginning; KEPT],
    /// The one that is replaced next.
    next: usize,
}

#[derive(Debug, Default)]
struct Beginning {
    /// See [`FieldEncoder::code`]; `None` where nothing is kept.
    code: Option<bool>,
    server: Option<Vec<u8>>,
    date: Option<Vec<u8>>,
    content_type: Option<Vec<u8>>,
    lines: Vec<u8>,
}

impl Beginning {
    fn is_of(&self, code: bool, first: &FirstFields<'_>) -> bool {
        self.code == Some(code)
            && self.date.as_deref() == first.date
            && self.content_type.as_deref() == first.content_type
            && self.server.as_deref() == first.server
    }
}

impl Beginnings {
    /// Lists the first fields of a response.
    #[inline]
    pub(super) fn list<E: FieldEncoder>(
        &mut self,
        first: FirstFields<'_>,
        fields: &mut Fields<'_, E>,
    ) {
        let Some(code) = fields.code() else { return first.list(fields) };
        match self.kept.iter().find(|kept| kept.is_of(code, &first)) {
            Some(kept) => fields.push_lines(&kept.lines),
            None => self.encode(code, &first, fields),
        }
    }

    #[cold]
    fn encode<E: FieldEncoder>(
        &mut self,
        code: bool,
        first: &FirstFields<'_>,
        fields: &mut Fields<'_, E>,
    ) {
        let (start, invalid) = (fields.lines().len(), fields.invalid());
        first.list(fields);
        let lines = fields.lines().get(start..).unwrap_or_default();
        // Fields that are left out are counted each time.
        if fields.invalid() > invalid || lines.len() > BYTES_MAX {
            return;
        }
        let Some(place) = self.kept.get_mut(self.next) else { return };
        let kept = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
        *place = Beginning {
            code: Some(code),
            server: kept(first.server),
            date: kept(first.date),
            content_type: kept(first.content_type),
            lines: lines.to_vec(),
        };
        self.next = (self.next + 1) % KEPT;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_h3::qpack::Encoder;

    use super::*;

    fn lines(
        first: FirstFields<'_>,
        code: bool,
        beginnings: Option<&mut Beginnings>,
    ) -> (Vec<u8>, u32) {
        let (mut encoder, mut block) = (Encoder::new(0, code), b"before".to_vec());
        encoder.begin(0);
        let mut fields = Fields::new(&mut encoder, &mut block);
        match beginnings {
            Some(beginnings) => beginnings.list(first, &mut fields),
            None => first.list(&mut fields),
        }
        let invalid = fields.invalid();
        (block, invalid)
    }

    proptest! {
        /// Whatever came before, the lines are those of the encoder.
        #[test]
        fn lines_are_as_encoded(
            heads in proptest::collection::vec((0u8..3, 0u8..4, 0u8..4, any::<bool>()), 1..40),
        ) {
            let mut beginnings = Beginnings::default();
            for (server, date, kind, code) in heads {
                let of = |texts: [&'static str; 3], at: u8| {
                    texts.get(usize::from(at)).map(|text| text.as_bytes())
                };
                let first = FirstFields {
                    server: of(["one", "", "li\nne"], server),
                    date: of(["Sat, 1", "Sat, 2", "Sat, 3"], date),
                    content_type: of(["text/html", "text/plain", "x/y"], kind),
                };
                let found = lines(first, code, Some(&mut beginnings));
                prop_assert_eq!(found, lines(first, code, None));
            }
        }
    }
}
