//! Pages byte for byte.
use super::write_page;

fn page(status: u16, padding: bool) -> String {
    let mut out = Vec::new();
    assert_eq!(write_page(status, b"tidegate", padding, &mut out), !out.is_empty());
    String::from_utf8(out).unwrap()
}

#[test]
fn pages_are_as_printed() {
    assert_eq!(
        page(404, false),
        "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n\
         <center><h1>404 Not Found</h1></center>\r\n<hr><center>tidegate</center>\r\n\
         </body>\r\n</html>\r\n"
    );
    assert_eq!(
        page(494, false),
        "<html>\r\n<head><title>400 Request Header Or Cookie Too Large</title></head>\r\n<body>\r\n\
         <center><h1>400 Bad Request</h1></center>\r\n\
         <center>Request Header Or Cookie Too Large</center>\r\n<hr><center>tidegate</center>\r\n\
         </body>\r\n</html>\r\n"
    );
    assert!(page(302, false).contains("<title>302 Found</title>"));
    assert!(page(500, true).len() > 512);
    assert_eq!(page(302, true), page(302, false));
    for status in [200, 204, 304, 418, 444, 599] {
        assert_eq!(page(status, false), "");
    }
}
